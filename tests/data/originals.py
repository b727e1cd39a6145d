"""Writes files in the form of the original Fashion-MNIST."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np


def write_originals(
    folder: Path, *, train: int, test: int, compress: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Random images, and labels 0, 1, ... 9, 0, ...; returns x_train, y_train, x_test, y_test."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    arrays = []
    for part, rows in (("train", train), ("t10k", test)):
        images = rng.integers(0, 256, (rows, 28, 28), dtype=np.uint8)
        labels = (np.arange(rows) % 10).astype(np.uint8)
        _write(folder / f"{part}-images-idx3-ubyte", images, compress)
        _write(folder / f"{part}-labels-idx1-ubyte", labels, compress)
        arrays += [images, labels]
    return arrays[0], arrays[1], arrays[2], arrays[3]


def _write(path: Path, array: np.ndarray, compress: bool) -> None:
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    content = header + array.tobytes()
    if compress:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content))
    else:
        path.write_bytes(content)
