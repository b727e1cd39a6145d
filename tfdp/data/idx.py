"""Reads the IDX files ("ubyte") that MNIST and Fashion-MNIST are distributed as.

An IDX file is two zero bytes, one byte for the element type (0x08: unsigned byte), one byte for
the rank, the extents as big-endian 32-bit integers, and then the elements in row-major order.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from tfdp.errors import DataError

_UNSIGNED_BYTE = 0x08


def read_idx(path: Path | str) -> np.ndarray:
    """Returns the unsigned bytes of the IDX file at `path`, gzipped or not.

    Args:
      path: an IDX file; a name that ends in ``.gz`` is decompressed.

    Returns:
      A uint8 array with the shape that the file's header gives.

    Raises:
      DataError: the file is missing, is not an IDX file of unsigned bytes, or is cut short.
    """
    path = Path(path)
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: cannot be read: {error}.",
            hint="The file may be damaged; fetch it again.",
        ) from error
    return _parse(content, path)


def _parse(content: bytes, path: Path) -> np.ndarray:
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _UNSIGNED_BYTE:
        raise DataError(
            f"{path}: not an IDX file of unsigned bytes (it begins with {content[:4].hex(' ')}).",
            hint="Expected a file such as train-images-idx3-ubyte.gz.",
        )
    rank = content[3]
    start = 4 + 4 * rank
    if len(content) < start:
        raise DataError(f"{path}: ends within its header, after {len(content)} bytes.")
    shape = tuple(int(extent) for extent in np.frombuffer(content[4:start], ">u4"))
    expected = math.prod(shape)
    if len(content) - start != expected:
        raise DataError(
            f"{path}: the header promises shape {shape}, {expected} bytes, "
            f"but {len(content) - start} bytes follow.",
            hint="The file may be cut short; fetch it again.",
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
