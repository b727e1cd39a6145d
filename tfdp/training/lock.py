"""One process at a time writes to a run directory.

The lock is the kernel's, on an open file: it ends with the process, however that ends. On a file
system without locks nothing is locked.

This module does not load TensorFlow.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from tfdp.errors import RunError

_NAME = ".lock"
_taken: dict[str, int] = {}


def take_directory(directory: Path) -> None:
    """Takes a directory for this process; one that it has taken already stays taken.

    Raises:
      RunError: another process has it.
    """
    key = str(directory.resolve())
    if key in _taken:
        return
    path = directory / _NAME
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
        os.close(descriptor)
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            return
        raise RunError(
            f"{directory}: another process trains in this run directory ({holder or 'unknown'}).",
            hint="Wait until it has ended, end it, or name another directory "
            "(--set output.directory=...).",
        ) from None
    with contextlib.suppress(OSError):
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
    _taken[key] = descriptor


@contextlib.contextmanager
def given_back(directory: Path) -> Iterator[None]:
    """Lets others have the directory after the block, if this process has taken it inside."""
    try:
        yield
    finally:
        descriptor = _taken.pop(str(directory.resolve()), None)
        if descriptor is not None:
            os.close(descriptor)
