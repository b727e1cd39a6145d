"""Examples that are read and decoded once: in memory, or in files.

What is cached are rows that can be read in any order. A stream that is cached is shuffled all
together, no longer within its buffer; its order is another one than without a cache, and as much a
pure function of seed and epoch.
"""

from __future__ import annotations

import logging
from pathlib import Path

from tfdp.data.column_files import ColumnFiles, folder_for, is_written, write_columns
from tfdp.data.materialize import all_batches, materialize
from tfdp.data.sources.arrays import ArraySource
from tfdp.data.sources.base import Source
from tfdp.errors import DataError

_log = logging.getLogger("tfdp.data")

MEMORY = "memory"


def cached(source: Source, where: str, directory: Path) -> Source:
    """The examples of a source as rows that have been read and decoded.

    Args:
      source: what to cache; rows that are in memory, or in files already, are returned as they are.
      where: "memory", or a folder.
      directory: where the folder is, unless `where` is absolute.

    Raises:
      DataError: an example cannot be read, examples have no fixed size, or the disk is full.
    """
    if isinstance(source, ArraySource | ColumnFiles):
        return source
    if where == MEMORY:
        kept: Source = ArraySource(materialize(source))
    else:
        kept = _in_files(source, directory / where)
    kept.classes = source.classes
    kept.per_worker = source.per_worker
    return kept


def _in_files(source: Source, parent: Path) -> ColumnFiles:
    files = getattr(source, "files", ())
    if not files:
        raise DataError(f"{source.place}: has no files, and is not cached in files.")
    folder = folder_for(parent, source.describe(), files)
    structure, batches = all_batches(source)
    if is_written(folder):
        _log.info("%s: read from the cache %s", source.place, folder)
    else:
        _log.info("%s: writing the cache %s", source.place, folder)
        write_columns(folder, batches)
    return ColumnFiles(folder, structure, source.place)
