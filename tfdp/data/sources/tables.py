"""What sources of named columns have in common: options, and the way to rows."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfdp.config.checks import a_path, not_blank
from tfdp.config.section import Section, setting, to_plain
from tfdp.data.arrays import rows_of
from tfdp.data.column_files import (
    ColumnFiles,
    folder_for,
    is_written,
    read_layout,
    write_columns,
)
from tfdp.data.examples import Examples, TrainingData
from tfdp.data.sources.columns import arrange, check_names
from tfdp.data.sources.files import WORKER, find_files
from tfdp.data.sources.registry import Context
from tfdp.errors import DataError

_log = logging.getLogger("tfdp.data")

Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Chunk:
    """Some rows that follow each other.

    Attributes:
      file: where they are.
      first: the number of the first of them in its file, from 0.
      columns: by name, at least one.
    """

    file: str
    first: int
    columns: Columns


Reader = Callable[[list[str], list[str] | None], Iterator[Chunk]]
"""`reader(files, names)`: the named columns of all files, one after the other; None: all."""


@dataclass(frozen=True, kw_only=True)
class TableOptions(Section):
    """Which files, and which columns of them."""

    files: str = setting(
        "Pattern of the training files; {worker} stands for the worker's number.", not_blank
    )
    target: str = setting("The column that is the target.", not_blank)
    validation: str | None = setting(
        "Pattern of the validation files; null: none.", not_blank, default=None
    )
    inputs: tuple[str, ...] = setting(
        "The columns that are inputs; empty: all but target and weight.", default=()
    )
    weight: str | None = setting(
        "The column that is the weight of an example; null: none.", not_blank, default=None
    )
    matrix: bool | None = setting(
        "Whether the inputs become one matrix of floats (rows, columns), or a dict of columns; "
        "null: a matrix, if all inputs are single numbers.",
        default=None,
    )
    on_disk: str | None = setting(
        "For tables that do not fit into memory: a folder where the columns are kept as files "
        "that are mapped into it, written once for each state of the tables; null: all rows are "
        "in memory.",
        a_path,
        default=None,
    )


def load_tables(options: TableOptions, context: Context, reader: Reader) -> TrainingData:
    """Training and validation rows of the files that the options name.

    Raises:
      DataError: names the file, and the column or row.
    """
    train = _rows(options.files, options, context, reader, "files")
    if options.validation is None:
        return TrainingData(train)
    return TrainingData(train, _rows(options.validation, options, context, reader, "validation"))


def _rows(
    pattern: str, options: TableOptions, context: Context, reader: Reader, key: str
) -> Examples:
    files = find_files(pattern, context, f"data.arguments.{key}")
    place = files[0] if len(files) == 1 else f"{len(files)} files {pattern}"
    others = [options.target, *([options.weight] if options.weight else [])]
    wanted = [*options.inputs, *others] if options.inputs else None

    def parts(columns: Columns) -> tuple[Any, ...]:
        check_names(others, list(columns), place)
        inputs = options.inputs or tuple(name for name in columns if name not in others)
        if not inputs:
            raise DataError(f"{place}: there is no column but target and weight.")
        x, *rest = arrange(columns, inputs, options.target, options.weight)
        return (as_matrix(x, options.matrix, place), *rest)

    own = WORKER in pattern
    if options.on_disk is None:
        chunks = list(reader(files, wanted))
        if not chunks:
            raise _no_rows(files)
        columns = concatenate([each.columns for each in chunks], [each.file for each in chunks])
        return rows_of(parts(columns), place, own)
    folder = folder_for(
        context.directory / Path(options.on_disk).expanduser(),
        repr((to_plain(options), context.on_error)),
        files,
    )
    if not is_written(folder):
        _log.info("%s: writing the columns to %s", place, folder)
        _write(folder, parts, reader(files, wanted), files)
    found = ColumnFiles(folder, _structure(read_layout(folder)), place)
    found.per_worker = own
    return found


def _write(
    folder: Path,
    parts: Callable[[Columns], tuple[Any, ...]],
    chunks: Iterator[Chunk],
    files: Sequence[str],
) -> None:
    first = next(chunks, None)
    if first is None:
        raise _no_rows(files)
    x, *rest = parts(first.columns)
    layout = {"inputs": list(x) if isinstance(x, Mapping) else None, "weight": len(rest) == 2}

    def leaves() -> Iterator[list[np.ndarray]]:
        rows = 0
        for chunk in itertools.chain([first], chunks):
            _check_alike(first, chunk)
            found = tf.nest.flatten(parts(chunk.columns))
            rows += len(found[0])
            yield found
        if not rows:
            raise _no_rows(files)

    write_columns(folder, leaves(), layout)


def _structure(layout: Mapping[str, Any]) -> tuple[Any, ...]:
    """`(x, y)` or `(x, y, sample_weight)` with a placeholder for each column."""
    names = layout["inputs"]
    x = 0 if names is None else dict.fromkeys(names, 0)
    return (x, 0, 0) if layout["weight"] else (x, 0)


def _no_rows(files: Sequence[str]) -> DataError:
    """What to raise where there is not a single row."""
    return DataError(f"{files[0]}: there are no examples (0 rows).")


def as_matrix(x: Any, wanted: bool | None, place: str) -> Any:
    """Several columns as a matrix `(rows, columns)` of floats, if that is wanted.

    Raises:
      DataError: a matrix is wanted, and a column does not hold single numbers.
    """
    if not isinstance(x, Mapping) or wanted is False:
        return x
    odd = [
        name for name, column in x.items() if column.ndim != 1 or column.dtype.kind not in "biuf"
    ]
    if odd and wanted:
        raise DataError(
            f"{place}: column {odd[0]!r} holds {x[odd[0]].dtype} of shape "
            f"{x[odd[0]].shape[1:]}, and cannot be part of a matrix.",
            hint="Set data.arguments.matrix: false, or choose inputs that are single numbers.",
        )
    if odd:
        return x
    return np.stack([column.astype(np.float32) for column in x.values()], axis=1)


def concatenate(parts: Sequence[Columns], files: Sequence[str]) -> Columns:
    """The columns of several parts, one after the other.

    Args:
      parts: at least one.
      files: where each is from.

    Raises:
      DataError: a part has other columns, or a column has another type or shape than in the first.
    """
    first = Chunk(files[0], 0, parts[0])
    for part, file in zip(parts[1:], files[1:], strict=True):
        _check_columns(first, Chunk(file, 0, part))
    if len(parts) == 1:
        return dict(parts[0])
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _check_columns(first: Chunk, chunk: Chunk) -> None:
    """The same columns, of the same shapes, and text or numbers in both."""
    check_names(list(first.columns), list(chunk.columns), chunk.file)
    for name, column in first.columns.items():
        here = chunk.columns[name]
        same_kind = (column.dtype.kind in "US") == (here.dtype.kind in "US")
        if not same_kind or here.shape[1:] != column.shape[1:]:
            raise DataError(
                f"{chunk.file}: column {name!r} holds {here.dtype} of shape {here.shape[1:]}, but "
                f"in {first.file} {column.dtype} of shape {column.shape[1:]}."
            )


def _check_alike(first: Chunk, chunk: Chunk) -> None:
    """The same dtypes too: what is on disk has one, and cannot be widened any more."""
    _check_columns(first, chunk)
    for name, column in first.columns.items():
        here = chunk.columns[name]
        if here.dtype != column.dtype and column.dtype.kind not in "US":
            raise DataError(
                f"{chunk.file}: column {name!r} holds {here.dtype} from row {chunk.first} on, but "
                f"{column.dtype} before.",
                hint=f"In CSV files say its type, as in data.arguments.dtypes: {{{name}: "
                f"{np.result_type(here, column)}}}; Parquet files need one type in all.",
            )
