"""Files of one JSON object a line, of which every line is there completely or not at all.

A number that is not finite is null: JSON has no NaN. This module does not load TensorFlow.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from io import RawIOBase
from pathlib import Path
from typing import Any

from tfdp.training.files import disk_errors

_BLOCK_BYTES = 4096


def append_record(path: Path, record: Mapping[str, Any]) -> None:
    """Adds one line to the end; the file need not exist yet.

    A last line that is cut short, by a process that was killed while it wrote, is removed first.

    Raises:
      RunError: the disk is full or fails; the lines before it stay.
    """
    line = (json.dumps(_finite(record), allow_nan=False) + "\n").encode("utf-8")
    # Unbuffered, or the rest of a line that failed would be written when the file is closed.
    with disk_errors(path), path.open("ab", buffering=0) as file:
        end = file.tell()
        if end:
            end = _end_of_whole_lines(path, end)
            file.truncate(end)
        try:
            write_all(file, line)
        except OSError:
            file.truncate(end)
            raise


def read_lines(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Each line with its record; what follows a line that is cut short is left out."""
    if not path.is_file():
        return []
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append((line, json.loads(line)))
        except json.JSONDecodeError:
            break
    return records


def write_all(file: RawIOBase, content: bytes) -> None:
    """A nearly full disk takes a part of `content`, and says why only when asked for the rest."""
    while content:
        content = content[file.write(content) :]


def _end_of_whole_lines(path: Path, end: int) -> int:
    """Bytes up to and with the last line break."""
    with path.open("rb") as file:
        while end:
            start = max(0, end - _BLOCK_BYTES)
            file.seek(start, os.SEEK_SET)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
