"""Least, most, mean, classes and missing values of a column, batch after batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_MOST_CLASSES = 1000


@dataclass
class Column:
    """What is known of one column so far.

    Attributes:
      name: of the column.
      dtype: of its values.
      shape: of one example.
      rows: examples seen.
      missing: values that are NaN, or empty text.
      least: smallest value that is not missing; None for text and before the first.
      most: the largest.
      classes: how often each value came, of integers and text with one value for each example;
        None once there are more than a thousand of them.
    """

    name: str
    dtype: str = ""
    shape: tuple[int | None, ...] = ()
    rows: int = 0
    missing: int = 0
    least: float | None = None
    most: float | None = None
    classes: Counter[Any] | None = field(default_factory=Counter)
    _values: int = 0
    _sum: float = 0.0

    @property
    def mean(self) -> float | None:
        """Of the values that are not missing."""
        return self._sum / self._values if self._values else None

    def add(self, values: np.ndarray) -> None:
        """Adds the values of some examples, `(rows, ...)`."""
        if not self.rows:
            self.dtype = "text" if values.dtype.kind in "OSU" else str(values.dtype)
            self.shape = values.shape[1:]
        elif values.shape[1:] != self.shape:
            self.shape = tuple(
                a if a == b else None for a, b in zip(self.shape, values.shape[1:], strict=True)
            )
        self.rows += len(values)
        if self.dtype == "text":
            self.missing += sum(1 for value in values.ravel() if not value)
        else:
            self._add_numbers(values)
        self._count(values)

    def _add_numbers(self, values: np.ndarray) -> None:
        flat = values.ravel()
        if values.dtype.kind == "f":
            there = ~np.isnan(flat)
            self.missing += int(len(flat) - there.sum())
            flat = flat[there]
        if not len(flat):
            return
        least, most = flat.min().item(), flat.max().item()
        self.least = least if self.least is None else min(self.least, least)
        self.most = most if self.most is None else max(self.most, most)
        self._values += len(flat)
        self._sum += float(flat.sum(dtype=np.float64))

    def _count(self, values: np.ndarray) -> None:
        one_each = values.ndim == 1 or values.shape[1:] == (1,)
        if self.classes is None or not one_each or values.dtype.kind == "f":
            self.classes = None
            return
        self.classes.update(_text(value) for value in values.ravel().tolist())
        if len(self.classes) > _MOST_CLASSES:
            self.classes = None


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
