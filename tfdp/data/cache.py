"""Examples that are read and decoded once: in memory, or in files.

What is cached are rows that can be read in any order. A stream that is cached is shuffled all
together, no longer within its buffer; its order is another one than without a cache, and as much a
pure function of seed and epoch.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import tensorflow as tf

from tfdp.data.materialize import all_batches, materialize
from tfdp.data.sources.arrays import ArraySource
from tfdp.data.sources.base import RowSource, Source, Tickets
from tfdp.errors import DataError

_log = logging.getLogger("tfdp.data")

MEMORY = "memory"
_CONTENTS = "contents.json"


def cached(source: Source, where: str, directory: Path) -> Source:
    """The examples of a source as rows that have been read and decoded.

    Args:
      source: what to cache; rows in memory are returned as they are.
      where: "memory", or a folder.
      directory: where the folder is, unless `where` is absolute.

    Raises:
      DataError: an example cannot be read, examples have no fixed size or are text (in files), or
        the disk is full.
    """
    if isinstance(source, ArraySource):
        return source
    if where == MEMORY:
        kept = ArraySource(materialize(source))
        kept.classes = source.classes
        return kept
    folder = directory / where / _name(source)
    if not (folder / _CONTENTS).is_file():
        _write(source, folder)
    else:
        _log.info("%s: read from the cache %s", source.place, folder)
    return CachedRows(folder, source)


class CachedRows(RowSource):
    """Rows in files, one file for each component, mapped into memory."""

    stays = "its cache is mapped into the memory of this process"

    def __init__(self, folder: Path, source: Source) -> None:
        self.place = source.place
        self.classes = source.classes
        self.per_worker = source.per_worker
        self._spec = all_batches(source)[0]
        contents = json.loads((folder / _CONTENTS).read_text())
        self._rows: int = contents["rows"]
        self._columns = []
        for i, leaf in enumerate(tf.nest.flatten(self._spec)):
            shape = (self._rows, *leaf.shape[1:])
            path = folder / f"{i}.bin"
            expected = int(np.prod(shape)) * leaf.dtype.size
            if not path.is_file() or path.stat().st_size != expected:
                raise DataError(
                    f"{path}: should have {expected} bytes.",
                    hint=f"The cache is damaged: remove {folder}.",
                )
            dtype = leaf.dtype.as_numpy_dtype
            # An empty file cannot be mapped.
            self._columns.append(
                np.memmap(path, dtype, "r", shape=shape) if expected else np.empty(shape, dtype)
            )

    @property
    def rows(self) -> int:
        return self._rows

    def read(self, tickets: Tickets) -> tuple[Any, ...]:
        at = tickets["at"]
        specs = tf.nest.flatten(self._spec)
        leaves = tf.numpy_function(
            lambda at: [np.ascontiguousarray(column[at]) for column in self._columns],
            [at],
            [leaf.dtype for leaf in specs],
        )
        for leaf, spec in zip(leaves, specs, strict=True):
            leaf.set_shape([*at.shape, *spec.shape[1:]])
        return tuple(tf.nest.pack_sequence_as(self._spec, leaves))


def _name(source: Source) -> str:
    """A name that changes with the files of a source and with how they are read."""
    files = getattr(source, "files", ())
    if not files:
        raise DataError(f"{source.place}: has no files, and is not cached in files.")
    facts = [source.describe(), *map(_facts, files)]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _facts(file: str) -> tuple[str, int, int]:
    found = Path(file).stat()
    return str(Path(file).resolve()), found.st_size, found.st_mtime_ns


def _write(source: Source, folder: Path) -> None:
    """Writes the files beside their final place: several workers may do so at the same time."""
    spec, batches = all_batches(source)
    if any(leaf.dtype == tf.string for leaf in tf.nest.flatten(spec)):
        raise DataError(f"{source.place}: text is not cached in files; set data.cache: memory.")
    unfinished = folder.with_name(f"{folder.name}.{uuid4().hex[:8]}.tmp")
    _log.info("%s: writing the cache %s", source.place, folder)
    try:
        unfinished.mkdir(parents=True)
        rows = _append(
            batches, [unfinished / f"{i}.bin" for i in range(len(tf.nest.flatten(spec)))]
        )
        (unfinished / _CONTENTS).write_text(json.dumps({"rows": rows}))
        unfinished.rename(folder)
    except OSError as error:
        if not (folder / _CONTENTS).is_file():  # not written by another worker meanwhile either
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise DataError(
                f"{folder}: the cache cannot be written: {error.strerror}.",
                hint="Make room, or set data.cache to a folder elsewhere." if full else None,
            ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _append(batches: Any, paths: Sequence[Path]) -> int:
    rows = 0
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for leaves in batches:
            for file, leaf in zip(files, leaves, strict=True):
                file.write(np.ascontiguousarray(leaf).data)
            rows += len(leaves[0])
    return rows
