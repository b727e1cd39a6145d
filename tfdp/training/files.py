"""Files that are there completely or not at all, and errors of the disk in words.

This module does not load TensorFlow.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tfdp.errors import RunError

_TEMPORARY_SUFFIX = ".partial"


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turns an OSError inside the block, such as a full disk, into a `RunError` about `path`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise RunError(
            f"{path}: cannot be written: {reason}.",
            hint="Everything written before is intact. Make room or change the permissions, "
            "then go on with --resume.",
        ) from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives a temporary path beside `path` that takes its place when the block has succeeded.

    A reader, or a run that is killed at any moment, sees the old file or the new one, never a part.
    The temporary name keeps the suffix of `path`, by which Keras chooses its format.

    Raises:
      RunError: the disk is full, read-only, or fails in another way; the old file stays.
    """
    temporary = path.with_name(f".{path.stem}{_TEMPORARY_SUFFIX}{path.suffix}")
    try:
        with disk_errors(path):
            yield temporary
            _synchronize(temporary)
            os.replace(temporary, path)
            _synchronize(path.parent)
    finally:
        with contextlib.suppress(OSError):  # the directory itself may be gone
            temporary.unlink(missing_ok=True)


@contextmanager
def replacing_file(path: Path) -> Iterator[IO[bytes]]:
    """As `replacing`, with the temporary file open for writing bytes."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        yield file


def write_text(path: Path, text: str) -> None:
    """Writes a whole UTF-8 file.

    Raises:
      RunError: it cannot be written; the old file stays.
    """
    with replacing_file(path) as file:
        file.write(text.encode("utf-8"))


def _synchronize(path: Path) -> None:
    """Waits until the disk has it: a rename may otherwise outlive the content."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
