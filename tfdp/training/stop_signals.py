"""SIGTERM and SIGINT while a run can still save: pre-emption, and Ctrl-C.

This module does not load TensorFlow.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

_WATCHED = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Notes the first signal instead of ending the process; then a SIGINT ends it at once.

    A further SIGTERM is taken for the same request by another way: schedulers send it to all
    processes of a job, and a launcher that is one of them sends it on. Who does not want to wait
    sends SIGKILL.

    Only the main thread of a program can be told of signals; elsewhere nothing is changed.

    Attributes:
      received: the signal, or None.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def install(self) -> None:
        """Begins to note signals."""
        if threading.current_thread() is threading.main_thread():
            for number in _WATCHED:
                self._before[number] = signal.signal(number, self._note)

    def remove(self) -> None:
        """Gives the signals back to whom they belonged."""
        while self._before:
            number, handler = self._before.popitem()
            # None: set by a program in C, which Python cannot set again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.received = signal.Signals(number)
        # The system does the rest, also while the process is in TensorFlow. The kernel of a
        # notebook is only interrupted.
        second = signal.default_int_handler if hasattr(sys, "ps1") else signal.SIG_DFL
        signal.signal(signal.SIGINT, second)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(
            sys.__stderr__.fileno() if sys.__stderr__ else 2,
            f"\ntfdp: {self.received.name}: saving a checkpoint after this step, then leaving; "
            "Ctrl-C ends the process at once\n".encode(),
        )
