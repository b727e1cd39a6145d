"""Kills the process groups of workers whose launcher is gone, however it died.

Run as a script, ``python -I -S watchdog_program.py``; imports nothing of tfdp. Standard input is a
pipe from the launcher: ``+N`` when process group N was started, ``-N`` once it has ended. The end
of the input means that the launcher is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

_GRACE_SECONDS = 2.0


def main() -> None:
    """Returns when the launcher is gone and no group is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        if line.startswith("+"):
            groups.add(int(line[1:]))
        else:
            groups.discard(int(line[1:]))
    if groups:
        _signal(groups, signal.SIGTERM)
        time.sleep(_GRACE_SECONDS)
        _signal(groups, signal.SIGKILL)


def _signal(groups: set[int], number: signal.Signals) -> None:
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


if __name__ == "__main__":
    main()
