"""Runs a group of workers once, from the start of the first to the end of the last."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from tfdp.launcher.interrupts import Interrupt
from tfdp.launcher.output import Printer, last_failure
from tfdp.launcher.process import Exit, WorkerProcess, WorkerSpec
from tfdp.launcher.watchdog import Watchdog

_LOOK_SECONDS = 0.25
"""How often it is checked whether the reader of the output has left."""


@dataclass(frozen=True)
class Failure:
    """The first worker that failed.

    Attributes:
      exit: how it ended.
      seconds: after the start of the group.
      lines: the end of its output, from the last traceback on.
      log: the whole output.
    """

    exit: Exit
    seconds: float
    lines: tuple[str, ...]
    log: Path


@dataclass(frozen=True)
class GroupResult:
    """How a group has ended.

    Attributes:
      failure: the first worker that failed by itself, if one did.
      interrupt: the signal that ended it, if one did.
      unfinished: indexes of the workers that ran when the time was up, if it was.
      status: worst exit code of the workers that ended by themselves, as a shell has it.
    """

    failure: Failure | None = None
    interrupt: signal.Signals | None = None
    unfinished: tuple[int, ...] = ()
    status: int = 0


class Group:
    """A group of workers; `run` it once.

    Args:
      specs: the workers.
      shown: indexes of those whose output is shown.
      printer: where it is shown.
      grace_seconds: between SIGTERM and SIGKILL, when the group is ended.
      events: where `interrupts` puts signals.
      watchdog: ends the workers if this process is killed.
    """

    def __init__(
        self,
        specs: Sequence[WorkerSpec],
        *,
        shown: Sequence[int],
        printer: Printer,
        grace_seconds: float,
        events: SimpleQueue[Any],
        watchdog: Watchdog,
    ) -> None:
        self._specs = specs
        self._shown = shown
        self._printer = printer
        self._grace = grace_seconds
        self._events = events
        self._watchdog = watchdog
        self._workers: dict[int, WorkerProcess] = {}
        self._running: set[int] = set()
        self._late: list[Exit] = []
        self._ended_at = 0.0

    def run(self, timeout_seconds: float | None = None) -> GroupResult:
        """Waits until all have ended well; ends all when one fails, or a signal or the time does.

        Raises:
          BrokenPipeError: the reader of the output has left.
        """
        start = time.monotonic()
        deadline = None if timeout_seconds is None else start + timeout_seconds
        exits: list[Exit] = []
        interrupt: signal.Signals | None = None
        unfinished: tuple[int, ...] = ()
        try:
            for spec in self._specs:
                self._start(spec)
            while self._running:
                event = self._next(deadline)
                if event is None:
                    unfinished = tuple(sorted(self._running))
                    break
                if isinstance(event, Interrupt):
                    interrupt = event.number
                    break
                if self._has_ended(event):
                    exits.append(event)
                    if event.code != 0:
                        break
        finally:
            self._end()
        # Those that had ended by themselves before they could be told to.
        exits += [each for each in self._late if each.at <= self._ended_at]
        failures = [each for each in exits if each.code != 0]
        failed = min(failures, key=lambda each: each.at, default=None)
        return GroupResult(
            None if failed is None else self._describe(failed, start),
            interrupt,
            unfinished,
            max((each.status for each in exits), default=0),
        )

    def _start(self, spec: WorkerSpec) -> None:
        printer = self._printer if spec.index in self._shown else None
        worker = WorkerProcess(spec, printer, self._events)
        self._workers[spec.index] = worker
        self._running.add(spec.index)
        self._watchdog.watch(worker.group)

    def _next(self, deadline: float | None) -> Exit | Interrupt | None:
        """The next event, or None at the deadline."""
        while True:
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                return None
            wait = _LOOK_SECONDS if deadline is None else min(_LOOK_SECONDS, deadline - now)
            try:
                event: Exit | Interrupt = self._events.get(timeout=wait)
                return event
            except Empty:
                if self._printer.broken:
                    raise BrokenPipeError("the reader of the output has left") from None

    def _has_ended(self, event: Exit) -> bool:
        """Notes the end of a worker; False for one that is not of this group."""
        if event.index not in self._running:
            return False
        self._running.discard(event.index)
        return True

    def _end(self) -> None:
        """TERM to the workers that run, KILL after the grace period or at a second signal."""
        self._ended_at = time.monotonic()
        for index in self._running:
            self._workers[index].signal_group(signal.SIGTERM)
        deadline = self._ended_at + self._grace
        while self._running:
            try:
                event = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                break
            if isinstance(event, Interrupt):
                break
            if self._has_ended(event):
                self._late.append(event)
        for worker in self._workers.values():
            worker.signal_group(signal.SIGKILL)
        for worker in self._workers.values():
            worker.reap()
            self._watchdog.forget(worker.group)
        self._forget_exits()

    def _forget_exits(self) -> None:
        """The ends of killed workers are no events of the next group; signals are."""
        kept = []
        while not self._events.empty():
            event = self._events.get()
            if isinstance(event, Interrupt):
                kept.append(event)
        for event in kept:
            self._events.put(event)

    def _describe(self, failed: Exit, start: float) -> Failure:
        worker = self._workers[failed.index]
        lines = tuple(last_failure(worker.output.tail()))
        return Failure(failed, failed.at - start, lines, worker.spec.log)
