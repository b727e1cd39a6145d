"""Parquet files, read with pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tfdp.data.examples import TrainingData
from tfdp.data.sources.columns import check_names
from tfdp.data.sources.registry import Context, Format
from tfdp.data.sources.tables import Chunk, TableOptions, load_tables
from tfdp.errors import DataError

_CHUNK_ROWS = 65_536


@dataclass(frozen=True, kw_only=True)
class ParquetOptions(TableOptions):
    """Which Parquet files, and which columns of them."""


def load(options: ParquetOptions, context: Context) -> TrainingData:
    """The rows of all files.

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


def _read_files(pyarrow: Any, files: list[str], names: list[str] | None) -> Iterator[Chunk]:
    for file in files:
        first = 0
        for table in _tables(pyarrow, file, names):
            columns = {
                name: _column(pyarrow, table[name], file, name, first)
                for name in table.column_names
            }
            yield Chunk(file, first, columns)
            first += table.num_rows


def _tables(pyarrow: Any, file: str, names: list[str] | None) -> Iterator[Any]:
    """The rows of a file, some at a time."""
    try:
        with pyarrow.parquet.ParquetFile(file) as parquet:
            known = parquet.schema_arrow.names
            check_names(names or [], known, file)
            for batch in parquet.iter_batches(_CHUNK_ROWS, columns=names or known):
                yield pyarrow.Table.from_batches([batch])
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{file}: cannot be read as Parquet: {error}") from error


def _column(pyarrow: Any, column: Any, file: str, name: str, first: int) -> np.ndarray:
    """A column as an array; `first` is the number of its first row."""
    if column.null_count:
        row = next(i for i, value in enumerate(column) if not value.is_valid)
        raise DataError(f"{file}: column {name!r} has no value in row {first + row}.")
    kind = column.type
    if pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind):
        return np.array(column.to_pylist(), dtype=np.str_)
    if pyarrow.types.is_list(kind) or pyarrow.types.is_fixed_size_list(kind):
        return _matrix(column, file, name)
    array = np.asarray(column.to_numpy())
    if array.dtype.kind not in "biuf":
        raise DataError(f"{file}: column {name!r} is {kind}; expected numbers, text or lists.")
    for row in np.flatnonzero(~np.isfinite(array))[:1] if array.dtype.kind == "f" else ():
        raise DataError(
            f"{file}: column {name!r} is {array[row]} in row {first + row}, which is not finite."
        )
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
