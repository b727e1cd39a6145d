"""Becomes the worker's program, after asking the kernel to kill it when its parent dies.

Run as a script, ``python -I -S guard.py PARENT_PID PROGRAM ARGUMENT...``; imports nothing of tfdp.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
CANNOT_START = 127
"""Exit code of a program that cannot be started, as shells have it."""


def main(arguments: list[str]) -> None:
    """Does not return: the process becomes the program, or exits."""
    parent, program = int(arguments[0]), arguments[1:]
    with contextlib.suppress(ImportError, OSError, AttributeError):  # Linux alone can do it
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the kernel was asked
        os._exit(1)
    try:
        os.execvp(program[0], program)
    except OSError as error:
        print(f"{program[0]} cannot be started: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(CANNOT_START)


if __name__ == "__main__":
    main(sys.argv[1:])
