"""File patterns, with a worker's number in them where each worker has files of its own."""

from __future__ import annotations

import glob
from pathlib import Path

from tfdp.data.sources.registry import Context
from tfdp.errors import DataError

WORKER = "{worker}"


def find_files(pattern: str, context: Context, key: str) -> list[str]:
    """The files that a pattern matches, sorted by name.

    Args:
      pattern: with ``*``, ``?``, ``[...]``, ``**`` and ``{worker}``; relative to the context's
        directory.
      context: of the run.
      key: where the pattern stands in the config, for messages.

    Raises:
      DataError: it matches nothing, or names {worker} in a run without workers.
    """
    if WORKER in pattern:
        if context.worker is None:
            raise DataError(
                f"{key}: {pattern!r} names {WORKER}, but this run has no workers.",
                hint="Start it on several workers, or name the files without {worker}.",
            )
        pattern = pattern.replace(WORKER, str(context.worker))
    path = str(context.directory / Path(pattern).expanduser())
    files = sorted(name for name in glob.glob(path, recursive=True) if Path(name).is_file())
    if not files:
        folder = Path(path).parent
        missing = f"; there is no folder {folder}" if _is_plain(folder) else ""
        raise DataError(f"{key}: {path!r} matches no file{missing}.")
    return files


def _is_plain(folder: Path) -> bool:
    return not any(mark in str(folder) for mark in "*?[") and not folder.is_dir()
