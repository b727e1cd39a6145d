"""CSV files with a header line, in UTF-8."""

from __future__ import annotations

import csv
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from tfdp.config.section import setting
from tfdp.config.suggest import unknown
from tfdp.data.examples import TrainingData
from tfdp.data.sources.columns import check_names
from tfdp.data.sources.registry import Context, Format
from tfdp.data.sources.tables import Chunk, Columns, TableOptions, load_tables
from tfdp.errors import ConfigError, DataError

_log = logging.getLogger("tfdp.data")

_CHUNK_LINES = 65_536
_DTYPES: Final = ("int64", "float32", "float64", "string")


def _one_character(value: str) -> str | None:
    return None if len(value) == 1 else f"must be one character, got {value!r}"


@dataclass(frozen=True, kw_only=True)
class CsvOptions(TableOptions):
    """Which CSV files, and which columns of them."""

    delimiter: str = setting("What stands between two fields.", _one_character, default=",")
    dtypes: Mapping[str, Any] = setting(
        "Type of a column by name: int64, float32, float64 or string; the others: what their "
        "first lines look like.",
        default=dict,
    )


class BadLine(Exception):
    """A line that cannot be used."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


def load(options: CsvOptions, context: Context) -> TrainingData:
    """The rows of all files. The cost grows linearly with the data."""
    for name, dtype in options.dtypes.items():
        if dtype not in _DTYPES:
            raise ConfigError(
                f"data.arguments.dtypes.{name}: {unknown(str(dtype), _DTYPES, what='dtype')}"
            )
    return load_tables(options, context, partial(_read_files, options, context.on_error == "skip"))


def _read_files(
    options: CsvOptions, skip: bool, files: list[str], names: list[str] | None
) -> Iterator[Chunk]:
    skipped: list[str] = []
    for file in files:
        reader = _File(file, options, names, skip)
        yield from reader.chunks()
        skipped += reader.skipped
    if skipped:
        _log.warning(
            "left out %d lines that cannot be read (data.on_error: skip), the first: %s",
            len(skipped),
            skipped[0],
        )


class _File:
    """One CSV file on its way to columns."""

    def __init__(self, file: str, options: CsvOptions, names: list[str] | None, skip: bool) -> None:
        self.skipped: list[str] = []
        self._file = file
        self._delimiter = options.delimiter
        self._dtypes: dict[str, str] = dict(options.dtypes)
        self._given = set(options.dtypes)
        self._names = names
        self._skip = skip

    def chunks(self) -> Iterator[Chunk]:
        """All rows of the file.

        Raises:
          DataError: names the file and the line.
        """
        with Path(self._file).open("rb") as stream:
            lines = csv.reader(_Decoded(stream), delimiter=self._delimiter, strict=True)
            try:
                header = next(lines, None)
            except (BadLine, csv.Error) as error:
                raise self._error(BadLine(1, str(error))) from None
            if header is None:
                raise DataError(f"{self._file}: is empty; expected a line of column names.")
            check_names(self._names or [], header, self._file)
            first, empty = 0, True
            for columns in self._chunks(lines, header):
                yield Chunk(self._file, first, columns)
                first += len(next(iter(columns.values())))
                empty = False
        if empty:
            raise DataError(f"{self._file}: there are no examples (only a header line).")

    def _chunks(self, lines: Any, header: list[str]) -> Iterator[Columns]:
        names = self._names or header
        places = [header.index(name) for name in names]
        rows: list[list[str]] = []
        numbers: list[int] = []
        for row in self._rows(lines, len(header)):
            rows.append(row)
            numbers.append(lines.line_num)
            if len(rows) == _CHUNK_LINES:
                yield self._converted(rows, numbers, names, places)
                rows, numbers = [], []
        if rows:
            yield self._converted(rows, numbers, names, places)

    def _rows(self, lines: Any, width: int) -> Iterator[list[str]]:
        while True:
            try:
                row = next(lines, None)
                if row is None:
                    return
                if row and len(row) != width:
                    reason = f"has {len(row)} fields, but the header has {width}"
                    raise BadLine(lines.line_num, reason)
            except BadLine as error:
                self._bad(error)
            except csv.Error as error:
                self._bad(BadLine(lines.line_num, str(error)))
            else:
                if row:
                    yield row

    def _converted(
        self, rows: list[list[str]], numbers: list[int], names: list[str], places: list[int]
    ) -> Columns:
        good = np.ones(len(rows), bool)
        columns = {}
        for name, place in zip(names, places, strict=True):
            columns[name] = self._column(name, [row[place] for row in rows], numbers, good)
        return columns if good.all() else {name: c[good] for name, c in columns.items()}

    def _column(
        self, name: str, cells: list[str], numbers: list[int], good: np.ndarray
    ) -> np.ndarray:
        text = np.array(cells)
        dtype = self._dtypes.get(name) or _guess(text)
        if dtype == "int64" and name not in self._given and not _converts(text, "int64"):
            dtype = "float32" if _converts(text, "float32") else dtype
        self._dtypes[name] = dtype
        if dtype == "string":
            return text
        try:
            column = text.astype(dtype)
            bad = np.flatnonzero(~np.isfinite(column))
        except (ValueError, OverflowError):
            column = np.zeros(len(text), dtype)
            for i, cell in enumerate(cells):
                try:
                    column[i : i + 1] = np.array([cell]).astype(dtype)
                except (ValueError, OverflowError):
                    column[i] = 0
                    good[i] = self._bad(_no_number(numbers[i], name, cell, dtype))
            bad = np.flatnonzero(~np.isfinite(column))
        for i in bad.tolist():
            reason = f"column {name!r} is {cells[i]!r}, which is not finite"
            good[i] = self._bad(BadLine(numbers[i], reason))
        return column

    def _bad(self, error: BadLine) -> bool:
        """Raises the error, or notes it and returns False."""
        if not self._skip:
            raise self._error(error)
        self.skipped.append(f"{self._file}, line {error.line}: {error.reason}")
        return False

    def _error(self, error: BadLine) -> DataError:
        return DataError(f"{self._file}, line {error.line}: {error.reason}.")


class _Decoded:
    """The lines of a file as text; goes on after a line that is none."""

    def __init__(self, stream: BinaryIO) -> None:
        self._lines = enumerate(stream, 1)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        number, line = next(self._lines)
        try:
            return line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise BadLine(number, f"byte {error.start} is not UTF-8") from None


def _no_number(line: int, name: str, cell: str, dtype: str) -> BadLine:
    found = repr(cell) if cell.strip() else "empty"
    return BadLine(line, f"column {name!r} is {found}; expected {dtype}")


def _guess(text: np.ndarray) -> str:
    return next((dtype for dtype in ("int64", "float32") if _converts(text, dtype)), "string")


def _converts(text: np.ndarray, dtype: str) -> bool:
    try:
        text.astype(dtype)
    except (ValueError, OverflowError):
        return False
    return True


FORMAT = Format("csv", CsvOptions, load)
