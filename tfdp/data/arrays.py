"""Examples in memory: NumPy arrays, checked before TensorFlow sees them.

This module does not load TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfdp.errors import DataError

_NUMBERS_AND_TEXT = "biufSU"
_IMAGE_RANKS = (3, 4)


@dataclass(frozen=True)
class Arrays:
    """Examples, row by row: `x[i]` is the input whose target is `y[i]`.

    Attributes:
      x: inputs, an array of shape `(rows, ...)` or a dict of such arrays.
      y: targets, the same.
      sample_weight: None, or one weight for each row, shape `(rows,)`.
      place: what to call these examples in error messages.
      per_worker: whether each worker has rows of its own.

    Raises:
      DataError: no rows, different numbers of rows, a type that is neither number nor text, or a
        value that is not finite.
    """

    x: Any
    y: Any
    sample_weight: Any = None
    place: str = "training data"
    per_worker: bool = False

    def __post_init__(self) -> None:
        for name in ("x", "y", "sample_weight"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _as_arrays(value, f"{self.place}: {name}"))
        parts = list(self._leaves())
        first_name, first = parts[0]
        for name, array in parts:
            if array.ndim == 0:
                raise DataError(f"{self.place}: {name} is a single value, not one value per row.")
            if len(array) != len(first):
                raise DataError(
                    f"{self.place}: {first_name} has {len(first)} rows, "
                    f"but {name} has {len(array)}."
                )
        if len(first) == 0:
            raise DataError(f"{self.place}: there are no examples (0 rows).")
        for name, array in parts:
            _check_finite(array, f"{self.place}: {name}")

    @property
    def rows(self) -> int:
        """How many examples there are."""
        return len(next(self._leaves())[1])

    def take(self, rows: np.ndarray, place: str) -> Arrays:
        """The examples with the numbers `rows`, as examples of their own."""
        return Arrays(
            x=_take(self.x, rows),
            y=_take(self.y, rows),
            sample_weight=_take(self.sample_weight, rows),
            place=place,
            per_worker=self.per_worker,
        )

    def _leaves(self) -> Iterator[tuple[str, np.ndarray]]:
        for name in ("x", "y", "sample_weight"):
            value = getattr(self, name)
            if isinstance(value, Mapping):
                yield from ((f"{name}[{key!r}]", value[key]) for key in value)
            elif value is not None:
                yield name, value


def rows_of(parts: tuple[Any, ...], place: str, per_worker: bool = False) -> Arrays:
    """`Arrays` of `(x, y)` or `(x, y, sample_weight)`."""
    x, y, *weight = parts
    return Arrays(x, y, weight[0] if weight else None, place=place, per_worker=per_worker)


def check_images(x: Any, place: str) -> None:
    """Raises a `DataError` unless `x` is an array of images.

    Args:
      x: should have shape `(rows, height, width)` or `(rows, height, width, channels)` and hold
        numbers; uint8 stands for 0..255, floats for themselves.
      place: what to call it in the message.
    """
    if not isinstance(x, np.ndarray) or x.ndim not in _IMAGE_RANKS or x.dtype.kind not in "iuf":
        found = f"{x.dtype} of shape {x.shape}" if isinstance(x, np.ndarray) else type(x).__name__
        raise DataError(
            f"{place}: x is {found}, not images.",
            hint="Expected numbers of shape (rows, height, width) or "
            "(rows, height, width, channels).",
        )
    if 0 in x.shape[1:]:
        raise DataError(f"{place}: images of shape {x.shape[1:]} have no pixels.")


def check_labels(y: Any, classes: int, place: str) -> None:
    """Raises a `DataError` unless `y` holds one class number for each row.

    Args:
      y: should be an array of integers in `[0, classes)`, of shape `(rows,)` or `(rows, 1)`.
      classes: how many classes the model tells apart.
      place: what to call it in the message.
    """
    if not isinstance(y, np.ndarray) or y.dtype.kind not in "iu":
        found = str(y.dtype) if isinstance(y, np.ndarray) else type(y).__name__
        raise DataError(f"{place}: labels are {found}; expected integers in 0..{classes - 1}.")
    if y.ndim != 1 and y.shape[1:] != (1,):
        raise DataError(
            f"{place}: labels have shape {y.shape}; expected one class number per row, "
            f"shape ({len(y)},)."
        )
    outside = np.flatnonzero((y < 0) | (y >= classes))
    if outside.size:
        row = int(outside[0])
        raise DataError(
            f"{place}: label {int(y[row].item())} in row {row} is out of range: the model tells "
            f"{classes} classes apart, so labels go from 0 to {classes - 1} "
            f"({outside.size} labels are outside)."
        )


def split_off_validation(arrays: Arrays, fraction: float, seed: int) -> tuple[Arrays, Arrays]:
    """Holds a random part of the rows out for validation.

    Args:
      arrays: the examples to divide.
      fraction: how much to hold out, in (0, 1); rounded to whole rows.
      seed: the same seed always holds out the same rows.

    Returns:
      `(training, validation)`; each keeps the rows in their order.

    Raises:
      DataError: one of the two would be empty.
    """
    held_out = round(arrays.rows * fraction)
    if not 0 < held_out < arrays.rows:
        raise DataError(
            f"{arrays.place}: a validation fraction of {fraction} of {arrays.rows} rows leaves "
            f"{arrays.rows - held_out} rows for training and {held_out} for validation."
        )
    order = np.random.default_rng(seed).permutation(arrays.rows)
    return (
        arrays.take(np.sort(order[held_out:]), arrays.place),
        arrays.take(np.sort(order[:held_out]), "validation data"),
    )


def _as_arrays(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        if not value:
            raise DataError(f"{name} is an empty dict.")
        return {key: _as_array(part, f"{name}[{key!r}]") for key, part in value.items()}
    return _as_array(value, name)


def _as_array(value: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise DataError(f"{name} cannot be made an array: {error}.") from error
    if array.dtype.kind not in _NUMBERS_AND_TEXT:
        raise DataError(
            f"{name} has dtype {array.dtype}; expected numbers, truth values or text.",
            hint="An array of dtype object is often a list of rows of different lengths.",
        )
    return array


def _check_finite(array: np.ndarray, name: str) -> None:
    if array.dtype.kind != "f":
        return
    with np.errstate(invalid="ignore", over="ignore"):
        if np.isfinite(array.sum(dtype=np.float64)):  # no temporary as large as the data
            return
    rows = np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))
    if rows.size:
        raise DataError(
            f"{name} has values that are not finite (NaN or infinity) in {rows.size} of "
            f"{len(array)} rows, the first in row {rows[0]}."
        )


def _take(value: Any, rows: np.ndarray) -> Any:
    if isinstance(value, Mapping):
        return {key: part[rows] for key, part in value.items()}
    return None if value is None else value[rows]
