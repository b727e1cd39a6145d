"""Looks at the processes and records of a group's workers, for `StallWatch`."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from tfdp.cluster.heartbeat import STACKS_SIGNAL, Beat, read_record
from tfdp.launcher.proc import Work, process_stat, work_of_groups
from tfdp.launcher.process import WorkerProcess
from tfdp.launcher.stalls import Look, Stall, StallWatch

_STACKS_SECONDS = 0.3


class GroupWatch:
    """Watches the workers of one start of a group.

    Args:
      records: the file of each worker's heartbeat, by index.
      timeout_seconds: how long a worker may stand still.
      all_here: no worker of the group runs on another machine.
    """

    def __init__(
        self, records: Mapping[int, Path], timeout_seconds: float, *, all_here: bool
    ) -> None:
        self._records = records
        self._watch = StallWatch(timeout_seconds, all_here=all_here)
        self._looked = time.monotonic()

    def look(self, running: Mapping[int, WorkerProcess]) -> Stall | None:
        """Looks at the workers that run, if it is time to; returns the stall if there is one."""
        now = time.monotonic()
        seconds = now - self._looked
        if seconds < self._watch.look_seconds:
            return None
        self._looked = now
        groups = [worker.group for worker in running.values()]
        works = work_of_groups(groups) if self._watch.needs_work else {}
        looks = {
            index: self._look(index, worker, works.get(worker.group))
            for index, worker in running.items()
        }
        return self._watch.take(looks, seconds, now)

    def ask_for_stacks(self, running: Mapping[int, WorkerProcess]) -> list[int]:
        """Lets workers write their Python stacks to their logs; returns which of them can.

        One whose process is stopped is continued: the group is about to be ended.
        """
        asked = []
        for index, worker in running.items():
            beat = self._beat(index, worker)
            if beat is not None and beat.writes_stacks:
                with contextlib.suppress(OSError):
                    os.kill(beat.process, STACKS_SIGNAL)
                    asked.append(index)
            worker.signal_group(signal.SIGCONT)
        if asked:
            time.sleep(_STACKS_SECONDS)
        return asked

    def _look(self, index: int, worker: WorkerProcess, work: Work | None) -> Look:
        beat = self._beat(index, worker)
        leader = process_stat(worker.group)
        stopped = leader is not None and leader.stopped
        if beat is not None and beat.process != worker.group:
            stat = process_stat(beat.process)
            stopped = stopped or (stat is not None and stat.stopped)
        return Look(stopped, work, beat)

    def _beat(self, index: int, worker: WorkerProcess) -> Beat | None:
        """The record, if it is of a process of this worker; another one must get no signal."""
        beat = read_record(self._records[index])
        stat = None if beat is None else process_stat(beat.process)
        return beat if stat is not None and stat.group == worker.group else None
