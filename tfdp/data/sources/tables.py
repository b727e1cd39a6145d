"""What sources of named columns have in common: options, and the way to rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfdp.config.checks import not_blank
from tfdp.config.section import Section, setting
from tfdp.data.arrays import Arrays, rows_of
from tfdp.data.examples import TrainingData
from tfdp.data.sources.columns import arrange, check_names
from tfdp.data.sources.files import WORKER, find_files
from tfdp.data.sources.registry import Context
from tfdp.errors import DataError

Columns = dict[str, np.ndarray]
Reader = Callable[[list[str], list[str] | None], Columns]
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


def load_tables(options: TableOptions, context: Context, reader: Reader) -> TrainingData:
    """Training and validation rows of the files that the options name."""
    train = _rows(options.files, options, context, reader, "files")
    if options.validation is None:
        return TrainingData(train)
    return TrainingData(train, _rows(options.validation, options, context, reader, "validation"))


def _rows(
    pattern: str, options: TableOptions, context: Context, reader: Reader, key: str
) -> Arrays:
    files = find_files(pattern, context, f"data.arguments.{key}")
    others = [options.target, *([options.weight] if options.weight else [])]
    wanted = [*options.inputs, *others] if options.inputs else None
    columns = reader(files, wanted)
    place = files[0] if len(files) == 1 else f"{len(files)} files {pattern}"
    check_names(others, list(columns), place)
    inputs = options.inputs or tuple(name for name in columns if name not in others)
    if not inputs:
        raise DataError(f"{place}: there is no column but target and weight.")
    x, *rest = arrange(columns, inputs, options.target, options.weight)
    return rows_of((as_matrix(x, options.matrix, place), *rest), place, WORKER in pattern)


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
    """The columns of several files, one after the other.

    Raises:
      DataError: a file has other columns, or a column has another type or shape than in the first.
    """
    first = parts[0]
    for part, file in zip(parts[1:], files[1:], strict=True):
        check_names(list(first), list(part), file)
        for name, column in first.items():
            here = part[name]
            same_kind = (column.dtype.kind in "US") == (here.dtype.kind in "US")
            if not same_kind or here.shape[1:] != column.shape[1:]:
                raise DataError(
                    f"{file}: column {name!r} holds {here.dtype} of shape {here.shape[1:]}, but in "
                    f"{files[0]} {column.dtype} of shape {column.shape[1:]}."
                )
    return {name: np.concatenate([part[name] for part in parts]) for name in first}
