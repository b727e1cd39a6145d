"""When a group of workers does not go on, and which of them is the cause. No processes here.

A worker is *stuck* when its process is stopped or its ticks stand still. A group is *stalled* when
no worker has made progress, though all are well. The cause is then the one that is not where the
others wait for it: in a callback, reading data, saving, or in an earlier step.

What may honestly take long is given ten times the time-out while it works, which is to say uses
the processor or reads and writes files.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tfdp.cluster.heartbeat import TICK_SECONDS, Activity, Beat
from tfdp.launcher.proc import Work

DEFAULT_STALL_SECONDS: Final = 60.0
PATIENCE: Final = 10
"""How many time-outs a worker may take that works."""

_BUSY_CPU: Final = 0.05
_BUSY_BYTES_PER_SECOND: Final = 100_000.0
_LONGEST_LOOK_SECONDS: Final = 2.0
_ENDING_SECONDS: Final = 30.0
"""TensorFlow waits for the other workers when a process ends."""

_STEPS: Final = 3
"""How many times the longest step so far a step may take."""

_OWN_CODE: Final = (Activity.STARTING, Activity.FINISHED, Activity.ENDING)
_TOGETHER: Final = (
    Activity.MEETING,
    Activity.BUILDING,
    Activity.STEP,
    Activity.VALIDATING,
    Activity.BETWEEN,
)
"""In these, workers wait for each other."""

_log = logging.getLogger("tfdp.launch")


@dataclass(frozen=True)
class Look:
    """What was seen of a worker at a moment.

    Attributes:
      stopped: its process is.
      work: what its processes have done so far, or None if it was not looked up.
      beat: its record, or None while it has none.
    """

    stopped: bool
    work: Work | None
    beat: Beat | None


@dataclass(frozen=True)
class Stall:
    """A group that does not go on.

    Attributes:
      index: the worker that is the cause, as far as one stands out.
      message: a sentence about it and the others.
      ending: its program has come to its end before, with an error perhaps.
    """

    index: int
    message: str
    ending: bool = False


@dataclass
class _Worker:
    """What is known of one worker; times are those in which somebody looked."""

    standstill: float = 0.0
    tickless: float = 0.0
    stopped: float = 0.0
    longest_step: float = 0.0
    look: Look | None = None
    works: deque[tuple[float, Work]] = field(default_factory=deque)

    @property
    def beat(self) -> Beat | None:
        return None if self.look is None else self.look.beat

    def see(self, look: Look, seconds: float, now: float, window: float) -> None:
        before = self.beat
        self.stopped = self.stopped + seconds if look.stopped else 0.0
        beat = look.beat
        if beat is not None and before is not None and before.process == beat.process:
            self.tickless = self.tickless + seconds if beat.ticks == before.ticks else 0.0
            if beat.progress == before.progress:
                self.standstill += seconds
            else:
                if before.activity is Activity.STEP and beat.step > before.step:
                    self.longest_step = max(self.longest_step, self.standstill)
                self.standstill = 0.0
        else:
            self.tickless = self.standstill = 0.0
        self.look = look
        if look.work is None:
            self.works.clear()
            return
        self.works.append((now, look.work))
        while len(self.works) > 2 and now - self.works[1][0] >= window:
            self.works.popleft()

    def is_busy(self) -> bool:
        """Whether it has worked of late."""
        if len(self.works) < 2:
            return True
        (start, first), (end, last) = self.works[0], self.works[-1]
        cpu = (last.cpu_seconds - first.cpu_seconds) / (end - start)
        io = (last.io_bytes - first.io_bytes) / (end - start)
        # Less than before: a process of the group has ended, so something goes on.
        return cpu >= _BUSY_CPU or io >= _BUSY_BYTES_PER_SECOND or cpu < 0

    @property
    def since(self) -> float:
        return 0.0 if self.beat is None else self.beat.since

    def is_ending(self) -> bool:
        return self.beat is not None and self.beat.activity is Activity.ENDING

    def describe(self, now: float) -> str:
        if self.beat is None:
            return "has not told what it does"
        seconds = max(0.0, now - self.beat.since)
        place = f"step {self.beat.step}, epoch {self.beat.epoch + 1}"
        return f"{self.beat.activity.text} for {seconds:.0f} s ({place})"


class StallWatch:
    """Finds out that a group does not go on; `take` what was seen every second or so.

    Args:
      timeout_seconds: how long a worker may stand still.
      all_here: no worker of the group runs on another machine. What those do is not seen from
        here, so a worker that waits for others is given ten times the time-out.
    """

    def __init__(self, timeout_seconds: float, *, all_here: bool) -> None:
        self._timeout = timeout_seconds
        self._all_here = all_here
        self._workers: dict[int, _Worker] = {}
        self._time = 0.0
        self._warned = False

    @property
    def look_seconds(self) -> float:
        """How often to look."""
        return min(1.0, self._timeout / 4)

    @property
    def needs_work(self) -> bool:
        """Whether it matters at the next look what the processes have done: they stand still."""
        since = self._timeout / 8
        return any(max(w.standstill, w.tickless) >= since for w in self._workers.values())

    def take(self, looks: Mapping[int, Look], seconds: float, now: float) -> Stall | None:
        """Takes what was seen of all workers that run here, by index.

        Args:
          looks: one for each worker.
          seconds: since the last call. A long time counts as a short one: then this process, or
            the machine, has been stopped itself.
          now: `time.monotonic`.

        Returns:
          The stall, once there is one.
        """
        seconds = min(seconds, _LONGEST_LOOK_SECONDS)
        self._time += seconds
        for index, look in looks.items():
            worker = self._workers.setdefault(index, _Worker())
            worker.see(look, seconds, self._time, self._timeout / 2)
        running = {index: self._workers[index] for index in sorted(looks)}
        return self._stuck(running, now) or self._stalled(running, now)

    def _stuck(self, running: Mapping[int, _Worker], now: float) -> Stall | None:
        for index, worker in running.items():
            if worker.stopped >= self._timeout:
                how = f"its process has been stopped for {worker.stopped:.0f} s"
            elif worker.tickless >= self._tick_limit(worker):
                how = f"its process has not run for {worker.tickless:.0f} s"
            else:
                continue
            told = "" if worker.beat is None else f"; it is {worker.describe(now)}"
            return Stall(index, f"{how}{told}{_others(running, index, now)}", worker.is_ending())
        return None

    def _tick_limit(self, worker: _Worker) -> float:
        timeout = max(self._timeout, 3 * TICK_SECONDS)
        if worker.is_ending():
            timeout = max(timeout, _ENDING_SECONDS)
        return timeout * (PATIENCE if worker.is_busy() else 1)

    def _stalled(self, running: Mapping[int, _Worker], now: float) -> Stall | None:
        beats = [worker.beat for worker in running.values()]
        if not running or None in beats or all(b and b.activity in _OWN_CODE for b in beats):
            return None
        standstill = min(worker.standstill for worker in running.values())
        if standstill < self._timeout:
            self._warned = False
            return None
        suspects = _suspects(running)
        limits = {index: self._limit(running[index]) for index in suspects}
        index = max(suspects, key=lambda each: (limits[each], -running[each].since))
        worker = running[index]
        alone = len(suspects) == 1
        told = f"it is {worker.describe(now)}{_others(running, index, now)}"
        if standstill >= limits[index]:
            return Stall(index, told if alone else f"{told}; no worker stands out")
        if not self._warned:
            self._warned = True
            _log.warning(
                "no worker has gone on for %.0f s. Worker %d: %s. If it stays so, the group is "
                "ended after %.0f s",
                standstill, index, told, limits[index],
            )  # fmt: skip
        return None

    def _limit(self, worker: _Worker) -> float:
        """How long this worker may stand still."""
        assert worker.beat is not None
        activity, long = worker.beat.activity, PATIENCE * self._timeout
        # A meeting has a time-out of its own, which says more: who did not come.
        if activity in (*_OWN_CODE, Activity.MEETING):
            return long
        if activity in _TOGETHER and not self._all_here:
            return long
        if activity is Activity.STEP and worker.longest_step:
            return min(long, max(self._timeout, _STEPS * worker.longest_step))
        return long if worker.is_busy() else self._timeout


def _suspects(running: Mapping[int, _Worker]) -> Sequence[int]:
    """Those that the others can be waiting for: not where all wait, and least far."""

    def rank(worker: _Worker) -> tuple[bool, int]:
        assert worker.beat is not None
        return worker.beat.activity in _TOGETHER, worker.beat.step

    first = min(rank(worker) for worker in running.values())
    return [index for index, worker in running.items() if rank(worker) == first]


def _others(running: Mapping[int, _Worker], index: int, now: float) -> str:
    told = [
        f"worker {each} is {worker.describe(now)}"
        for each, worker in running.items()
        if each != index and worker.beat is not None
    ]
    more = f" and {len(told) - 7} more" if len(told) > 8 else ""
    return "".join(f"; {each}" for each in (told[:7] if more else told)) + more
