"""Runs a group of workers once, from the start of the first to the end of the last."""

from __future__ import annotations

import logging
import math
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from tfdp.errors import ClusterError, PreemptedError, StalledError
from tfdp.launcher.interrupts import Interrupt
from tfdp.launcher.output import Printer, last_failure, last_stack
from tfdp.launcher.process import Exit, WorkerProcess, WorkerSpec
from tfdp.launcher.stalls import Stall
from tfdp.launcher.watch import GroupWatch
from tfdp.launcher.watchdog import Watchdog

_log = logging.getLogger("tfdp.launch")

_LOOK_SECONDS = 0.25
"""How often it is checked whether the reader of the output has left, and the workers go on."""

FAILURE_GRACE_SECONDS = 5.0
"""Between SIGTERM and SIGKILL after a failure: nothing is left to save without all workers."""

_CAUSE_SECONDS = 1.5
"""How long the cause is waited for, when a worker says that another one is gone."""

PREEMPTED = PreemptedError.exit_code
STALLED = StalledError.exit_code
_CONSEQUENCE = ClusterError.exit_code


@dataclass(frozen=True)
class Failure:
    """The first worker that failed.

    Attributes:
      exit: how it ended; for a stall, with the exit code `STALLED`.
      seconds: after the start of the group.
      lines: the end of its output, from the last traceback or stack on.
      log: the whole output.
      stall: where it has not ended by itself, but did not go on: what it did. Else None.
      stacks: logs to which workers have then written their Python stacks.
    """

    exit: Exit
    seconds: float
    lines: tuple[str, ...]
    log: Path
    stall: str | None = None
    stacks: tuple[Path, ...] = ()


@dataclass(frozen=True)
class GroupResult:
    """How a group has ended.

    Attributes:
      failure: the first worker that failed by itself, if one did.
      interrupt: the signal that ended it, if one did.
      unfinished: indexes of the workers that ran when the time was up, if it was.
      preempted: the workers have saved and left with the exit code 75, after a signal to the
        launcher or to one of them; there is no failure then.
      status: worst exit code of the workers that ended by themselves, as a shell has it.
    """

    failure: Failure | None = None
    interrupt: signal.Signals | None = None
    unfinished: tuple[int, ...] = ()
    preempted: bool = False
    status: int = 0


class Group:
    """A group of workers; `run` it once.

    Args:
      specs: the workers.
      shown: indexes of those whose output is shown.
      printer: where it is shown.
      grace_seconds: between SIGTERM and SIGKILL, when the group is told to end: time to save.
      events: where `interrupts` puts signals.
      watchdog: ends the workers if this process is killed.
      watch: notices that the workers do not go on; None: nobody does.
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
        watch: GroupWatch | None = None,
    ) -> None:
        self._specs = specs
        self._shown = shown
        self._printer = printer
        self._grace = grace_seconds
        self._events = events
        self._watchdog = watchdog
        self._watch = watch
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
        deadline = math.inf if timeout_seconds is None else start + timeout_seconds
        leave_by = math.inf
        exits: list[Exit] = []
        event: Exit | Interrupt | Stall | None = None
        try:
            for spec in self._specs:
                self._start(spec)
            while self._running:
                event = self._next(min(deadline, leave_by))
                if not isinstance(event, Exit):
                    break
                if self._has_ended(event):
                    exits.append(event)
                    self._announce(event)
                    leave_by = min(leave_by, event.at + self._patience(event))
            unfinished = tuple(sorted(self._running)) if time.monotonic() >= deadline else ()
        finally:
            stacks = self._ask_for_stacks(event) if isinstance(event, Stall) else ()
            told = isinstance(event, Interrupt) or any(each.code == PREEMPTED for each in exits)
            self._end(self._grace if told else min(self._grace, FAILURE_GRACE_SECONDS))
        # Those that had ended by themselves before they could be told to.
        exits += [each for each in self._late if each.at <= self._ended_at]
        if isinstance(event, Stall):
            return self._stalled(event, stacks, start)
        interrupt = event.number if isinstance(event, Interrupt) else None
        if _has_saved([*exits, *self._late] if interrupt is not None else exits):
            return GroupResult(interrupt=interrupt, preempted=True, status=PREEMPTED)
        failures = [each for each in exits if each.code not in (0, PREEMPTED)]
        failed = min(failures, key=lambda each: (each.code == _CONSEQUENCE, each.at), default=None)
        return GroupResult(
            None if failed is None else self._describe(failed, start),
            interrupt,
            unfinished,
            status=max((each.status for each in exits), default=0),
        )

    def _announce(self, event: Exit) -> None:
        """Says at once what the report says when all have ended."""
        if event.code == PREEMPTED:
            _log.info("worker %d has saved and left; the others are expected to", event.index)
        elif event.code != 0 and self._running:
            _log.info(
                "worker %d has ended with %s; ending the others", event.index, event.describe()
            )

    def _patience(self, event: Exit) -> float:
        """How long the others may still run, after a worker has ended like this."""
        if event.code == 0:
            return math.inf
        if event.code == PREEMPTED:
            return self._grace
        return _CAUSE_SECONDS if event.code == _CONSEQUENCE else 0.0

    def _start(self, spec: WorkerSpec) -> None:
        printer = self._printer if spec.index in self._shown else None
        worker = WorkerProcess(spec, printer, self._events)
        self._workers[spec.index] = worker
        self._running.add(spec.index)
        self._watchdog.watch(worker.group)

    def _next(self, deadline: float) -> Exit | Interrupt | Stall | None:
        """The next event, or None at the deadline."""
        while True:
            wait = min(_LOOK_SECONDS, deadline - time.monotonic())
            try:
                # What has happened by the deadline counts, so the queue is looked at once more.
                event: Exit | Interrupt = self._events.get(timeout=max(0.0, wait))
                return event
            except Empty:
                if wait <= 0:
                    return None
            if self._printer.broken:
                raise BrokenPipeError("the reader of the output has left") from None
            if self._watch is not None:
                stall = self._watch.look(self._running_workers())
                if stall is not None:
                    return stall

    def _running_workers(self) -> dict[int, WorkerProcess]:
        return {index: self._workers[index] for index in self._running}

    def _ask_for_stacks(self, stall: Stall) -> tuple[Path, ...]:
        """The logs to which the workers have written their stacks."""
        assert self._watch is not None
        _log.info("worker %d does not go on; ending all", stall.index)
        asked = self._watch.ask_for_stacks(self._running_workers())
        return tuple(self._workers[index].spec.log for index in sorted(asked))

    def _has_ended(self, event: Exit) -> bool:
        """Notes the end of a worker; False for one that is not of this group."""
        if event.index not in self._running:
            return False
        self._running.discard(event.index)
        return True

    def _end(self, grace: float) -> None:
        """TERM to the workers that run, KILL after the grace period or at a second Ctrl-C."""
        self._ended_at = time.monotonic()
        for worker in self._running_workers().values():
            worker.signal_group(signal.SIGTERM)
            worker.signal_group(signal.SIGCONT)  # one that is stopped would not get to see it
        deadline = self._ended_at + grace
        while self._running:
            try:
                event = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                break
            if isinstance(event, Interrupt):
                if event.number == signal.SIGINT:
                    break
                continue  # the same request by another way: `timeout` sends SIGTERM twice
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

    def _stalled(self, stall: Stall, stacks: tuple[Path, ...], start: float) -> GroupResult:
        worker, at = self._workers[stall.index], self._ended_at
        told = worker.output.tail()
        failure = Failure(
            Exit(stall.index, STALLED, at),
            at - start,
            tuple(last_failure(told) if stall.ending else last_stack(told)),
            worker.spec.log,
            stall.message,
            stacks,
        )
        return GroupResult(failure, status=STALLED)


def _has_saved(exits: Sequence[Exit]) -> bool:
    """Whether workers have left after they saved, and none has failed by itself.

    A worker leaves like this once the checkpoint is whole; that another one then found it gone, or
    was told to end once more while it left, takes nothing away.
    """
    codes = {each.code for each in exits}
    return PREEMPTED in codes and codes <= {0, PREEMPTED, _CONSEQUENCE, -signal.SIGTERM}
