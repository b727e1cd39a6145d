"""Signals to the launcher, as events in a queue."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Interrupt:
    """The launcher has received a signal."""

    number: signal.Signals


@contextmanager
def interrupts(events: SimpleQueue[Any]) -> Iterator[None]:
    """Puts SIGINT, SIGTERM and SIGHUP into `events` inside the block, instead of what they do.

    Outside of the main thread Python has no signal handlers, and nothing is changed. A signal that
    is ignored (as under nohup) stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _: Any) -> None:
        events.put(Interrupt(signal.Signals(number)))  # SimpleQueue.put may interrupt itself

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    changed = [number for number, old in before.items() if old not in (signal.SIG_IGN, None)]
    for number in changed:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, before[number])
