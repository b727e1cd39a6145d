"""Parquet files, read with pyarrow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tfdp.data.examples import TrainingData
from tfdp.data.sources.columns import check_names
from tfdp.data.sources.registry import Context, Format
from tfdp.data.sources.tables import Columns, TableOptions, concatenate, load_tables
from tfdp.errors import DataError


@dataclass(frozen=True, kw_only=True)
class ParquetOptions(TableOptions):
    """Which Parquet files, and which columns of them."""


def load(options: ParquetOptions, context: Context) -> TrainingData:
    """The rows of all files in memory.

    Raises:
      DataError: pyarrow is not installed; else names the file, column and row.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise DataError(
            f"data.name: parquet needs pyarrow, which cannot be imported: {error}.",
            hint='Install it: pip install "tfdp[parquet]".',
        ) from error
    return load_tables(options, context, partial(_read_files, pyarrow))


def _read_files(pyarrow: Any, files: list[str], names: list[str] | None) -> Columns:
    parts = [_read(pyarrow, file, names) for file in files]
    filled = [i for i, part in enumerate(parts) if len(next(iter(part.values())))]
    if not filled:
        raise DataError(f"{files[0]}: there are no examples (0 rows).")
    return concatenate([parts[i] for i in filled], [files[i] for i in filled])


def _read(pyarrow: Any, file: str, names: list[str] | None) -> Columns:
    try:
        with pyarrow.parquet.ParquetFile(file) as parquet:
            known = parquet.schema_arrow.names
            check_names(names or [], known, file)
            table = parquet.read(columns=names or known)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{file}: cannot be read as Parquet: {error}") from error
    return {name: _column(pyarrow, table[name], file, name) for name in table.column_names}


def _column(pyarrow: Any, column: Any, file: str, name: str) -> np.ndarray:
    if column.null_count:
        row = next(i for i, value in enumerate(column) if not value.is_valid)
        raise DataError(
            f"{file}: column {name!r} has {column.null_count} missing values, the first in row "
            f"{row}."
        )
    kind = column.type
    if pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind):
        return np.array(column.to_pylist(), dtype=np.str_)
    if pyarrow.types.is_list(kind) or pyarrow.types.is_fixed_size_list(kind):
        return _matrix(column, file, name)
    array = np.asarray(column.to_numpy())
    if array.dtype.kind not in "biuf":
        raise DataError(f"{file}: column {name!r} is {kind}; expected numbers, text or lists.")
    return array


def _matrix(column: Any, file: str, name: str) -> np.ndarray:
    """A column of lists of one length, `(rows, length)`."""
    rows = len(column)
    flat = column.combine_chunks().flatten()
    lengths = {len(column[i]) for i in (0, rows - 1)} if rows else {0}
    (length,) = lengths if len(lengths) == 1 else (-1,)
    if length * rows != len(flat) or any(len(value) != length for value in column):
        raise DataError(f"{file}: column {name!r} holds lists of different lengths.")
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(rows, length)


FORMAT = Format("parquet", ParquetOptions, load)
