"""Rows for two workers, and what one device makes of them, in NumPy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

BATCH = 6
FEATURES = {"x": {"type": "float32", "shape": [2]}, "y": {"type": "float32", "shape": [1]}}


def inputs(rows: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Eighths, which float32 holds exactly."""
    i = np.asarray(rows, np.float64)
    x = np.stack([(i % 7 - 3) / 8, (i % 5 - 2) / 8], axis=1)
    return x, (i[:, None] % 3) / 4


def start() -> np.ndarray:
    return np.array([[1.0], [-1.0]])


def trained(steps: Iterable[Sequence[int]]) -> list[float]:
    """The weights after one step of SGD at rate 1/8 on each of the lists of rows."""
    w = start()
    for rows in steps:
        x, y = inputs(rows)
        w = w - 0.125 * 2 * x.T @ (x @ w - y) / len(rows)
    return [float(value) for value in w.ravel()]
