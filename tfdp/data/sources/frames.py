"""Pandas data frames, without importing pandas: who hands one over has done so."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfdp.data.sources.tables import as_matrix
from tfdp.errors import DataError


def is_frame(value: Any) -> bool:
    """Whether `value` is a data frame (or a series) of pandas."""
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "to_numpy")


def from_frame(frame: Any, name: str) -> Any:
    """A series as an array, a data frame as a matrix of floats or, if not all its columns are
    numbers, as a dict of columns.

    Args:
      frame: see `is_frame`.
      name: what to call it in messages.

    Raises:
      DataError: a value is missing, or a column holds neither numbers nor text.
    """
    if not hasattr(frame, "columns"):
        return _column(frame, name)
    columns = {str(key): _column(frame[key], f"{name}[{key!r}]") for key in frame.columns}
    if len(columns) != len(frame.columns):
        raise DataError(f"{name}: two columns have the same name.")
    return as_matrix(columns, None, name)


def _column(series: Any, name: str) -> np.ndarray:
    missing = np.flatnonzero(np.asarray(series.isna()))
    if missing.size:
        raise DataError(f"{name} has {missing.size} missing values, the first in row {missing[0]}.")
    kind = str(series.dtype)
    if kind == "category":
        raise DataError(
            f"{name} is categorical.", hint="Give its codes (series.cat.codes) or its text."
        )
    array = np.asarray(series.to_numpy())
    if array.dtype == object:
        values = array.tolist()
        if all(isinstance(value, str) for value in values):
            return np.array(values, dtype=np.str_)
        if series.dtype != object:  # nullable numbers
            return np.array(values)
    return array
