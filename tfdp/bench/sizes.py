"""Sizes of buffers, in bytes and as text. No TensorFlow here: the command line reads them."""

from __future__ import annotations

import re
from typing import Final

DEFAULT_SIZES: Final = tuple(1024 * 4**power for power in range(9))
"""1 kB to 64 MB, each four times the one before."""

_UNITS: Final = {"": 1, "B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}
_ELEMENT_BYTES: Final = 4
_LARGEST: Final = 2**31


def parse_size(text: str) -> int:
    """Bytes of "4kB", "1 MB" or "4096"; 1 kB has 1024 bytes, as in nccl-tests.

    Raises:
      ValueError: it is no such size, or not a multiple of 4 bytes (one float32), or beyond 2 GB.
    """
    match = re.fullmatch(r"\s*([0-9]{1,12})\s*([A-Za-z]*)\s*", text)
    unit = None if match is None else _UNITS.get(match[2].upper())
    if match is None or unit is None:
        raise ValueError(f'a size is a number and B, kB, MB or GB, as in 64kB, got "{text}"')
    size = int(match[1]) * unit
    if size == 0 or size % _ELEMENT_BYTES or size > _LARGEST:
        raise ValueError(f'a size is a multiple of 4 bytes, up to 2 GB, got "{text}"')
    return size


def describe_size(size_bytes: int) -> str:
    """Text such as "64 kB", in the largest unit that divides the size."""
    for unit in ("GB", "MB", "kB"):
        if size_bytes % _UNITS[unit.upper()] == 0:
            return f"{size_bytes // _UNITS[unit.upper()]} {unit}"
    return f"{size_bytes} B"
