"""Rows whose columns are files, mapped into memory: for what does not fit into it, or takes long to
decode.

A folder holds for each column ``N.bin``, the values one after the other; of text the bytes, and in
``N.ends`` (int64) where each value ends; and ``contents.json``, which is written last.
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import numpy as np
import tensorflow as tf

from tfdp.data.sources.base import RowSource, Tickets
from tfdp.data.sources.columns import checked
from tfdp.errors import DataError

CONTENTS = "contents.json"
_VERSION = 1
_TEXT = "text"

Leaves = Sequence[np.ndarray]
"""The columns of some rows; text as bytes or str of any length."""


def folder_for(parent: Path, how: str, files: Sequence[str]) -> Path:
    """A folder whose name changes with the state of some files, and with how they are read.

    Args:
      parent: in which it is.
      how: the way of reading, in words.
      files: what is read.
    """
    facts = [_VERSION, how, *map(_facts, files)]
    return parent / hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def is_written(folder: Path) -> bool:
    """Whether the columns are all there."""
    return (folder / CONTENTS).is_file()


def write_columns(folder: Path, parts: Iterable[Leaves], layout: Any = None) -> None:
    """Writes the rows of all parts, one part in memory at a time.

    The files are written beside their final place: several workers may do so at the same time.

    Args:
      folder: where to; not there yet.
      parts: rows, all with the same number of columns, dtypes and shapes.
      layout: something for `read_layout`, in JSON.

    Raises:
      DataError: the disk is full, or there is no permission; nothing half written is left.
    """
    unfinished = folder.with_name(f"{folder.name}.{uuid4().hex[:8]}.tmp")
    try:
        unfinished.mkdir(parents=True)
        rows, columns = _append(parts, unfinished)
        contents = {"rows": rows, "columns": columns, "layout": layout}
        (unfinished / CONTENTS).write_text(json.dumps(contents), encoding="utf-8")
        unfinished.rename(folder)
    except OSError as error:
        if not is_written(folder):  # not written by another worker meanwhile either
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise DataError(
                f"{folder}: cannot be written: {error.strerror}.",
                hint="Make room, or choose a folder elsewhere." if full else None,
            ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def read_layout(folder: Path) -> Any:
    """What `write_columns` was given as `layout`."""
    return _contents(folder)["layout"]


class ColumnFiles(RowSource):
    """Rows in the files that `write_columns` has written.

    Args:
      folder: of the files.
      structure: `(x, y)` or `(x, y, sample_weight)` with anything for each column, in the order of
        `tf.nest.flatten`, in which they were written.
      place: what to call the examples in messages.

    Raises:
      DataError: a file is missing, or has another size than it should.
    """

    stays = "it is mapped into the memory of this process"

    def __init__(self, folder: Path, structure: Any, place: str) -> None:
        self.place = place
        self._structure = structure
        contents = _contents(folder)
        self._rows = int(contents["rows"])
        self._columns = [
            _TextColumn(folder, i, (self._rows, *shape))
            if dtype == _TEXT
            else _mapped(folder, f"{i}.bin", np.dtype(dtype), (self._rows, *shape))
            for i, (dtype, shape) in enumerate(contents["columns"])
        ]

    @property
    def rows(self) -> int:
        return self._rows

    def read(self, tickets: Tickets) -> tuple[Any, ...]:
        at = tickets["at"]
        leaves = tf.numpy_function(
            lambda at: [np.ascontiguousarray(column[at]) for column in self._columns],
            [at],
            [tf.as_dtype(column.dtype) for column in self._columns],
        )
        for leaf, column in zip(leaves, self._columns, strict=True):
            leaf.set_shape([*at.shape, *column.shape[1:]])
        return checked(tuple(tf.nest.pack_sequence_as(self._structure, leaves)), self.classes)


class _TextColumn:
    """Text of any length; indexed as an array is."""

    dtype = np.dtype(object)

    def __init__(self, folder: Path, number: int, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self._ends = _mapped(folder, f"{number}.ends", np.dtype(np.int64), shape).reshape(-1)
        size = int(self._ends[-1]) if self._ends.size else 0
        self._bytes = _mapped(folder, f"{number}.bin", np.dtype(np.uint8), (size,))

    def __getitem__(self, at: np.ndarray) -> np.ndarray:
        each = int(np.prod(self.shape[1:]))
        numbers = (np.asarray(at)[:, np.newaxis] * each + np.arange(each)).reshape(-1)
        ends = self._ends[numbers]
        begins = np.where(numbers > 0, self._ends[numbers - 1], 0)
        found = np.empty(len(numbers), object)
        for i, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
            found[i] = self._bytes[begin:end].tobytes()
        return found.reshape(len(at), *self.shape[1:])


class _Column:
    """One column on its way to its file.

    Args:
      number: of the column.
      first: its values of the first part.
      folder: for the files.
      files: closes them.
    """

    def __init__(self, number: int, first: np.ndarray, folder: Path, files: ExitStack) -> None:
        self._is_text = first.dtype.kind in "OSU"
        self.kind = [_TEXT if self._is_text else first.dtype.str, list(first.shape[1:])]
        self._file: BinaryIO = files.enter_context((folder / f"{number}.bin").open("wb"))
        if self._is_text:
            self._ends: BinaryIO = files.enter_context((folder / f"{number}.ends").open("wb"))
            self._end = 0

    def append(self, values: np.ndarray) -> None:
        if not self._is_text:
            self._file.write(np.ascontiguousarray(values).data)
            return
        texts = [_as_bytes(value) for value in values.reshape(-1).tolist()]
        ends = self._end + np.cumsum([len(text) for text in texts], dtype=np.int64)
        self._file.write(b"".join(texts))
        self._ends.write(ends.data)
        self._end = int(ends[-1]) if len(ends) else self._end


def _append(parts: Iterable[Leaves], folder: Path) -> tuple[int, list[Any]]:
    """Rows written, and the dtype and shape of each column."""
    rows = 0
    columns: list[_Column] = []
    with ExitStack() as files:
        for part in parts:
            if not columns:
                columns = [_Column(i, leaf, folder, files) for i, leaf in enumerate(part)]
            for column, leaf in zip(columns, part, strict=True):
                column.append(leaf)
            rows += len(part[0])
    return rows, [column.kind for column in columns]


def _mapped(folder: Path, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    path = folder / name
    expected = int(np.prod(shape)) * dtype.itemsize
    if not path.is_file() or path.stat().st_size != expected:
        raise DataError(
            f"{path}: should have {expected} bytes.",
            hint=f"It is damaged: remove {folder}, and it is written anew.",
        )
    # An empty file cannot be mapped.
    return np.memmap(path, dtype, "r", shape=shape) if expected else np.empty(shape, dtype)


def _contents(folder: Path) -> dict[str, Any]:
    path = folder / CONTENTS
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {error}.", hint=f"Remove {folder}.") from error
    return found


def _facts(file: str) -> tuple[str, int, int]:
    found = Path(file).stat()
    return str(Path(file).resolve()), found.st_size, found.st_mtime_ns


def _as_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
