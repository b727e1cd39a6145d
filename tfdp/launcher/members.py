"""Which workers take part in the next start of a group: `Members`."""

from __future__ import annotations

import logging
import signal
from collections.abc import Collection
from dataclasses import dataclass

from tfdp.launcher.group import Failure

_log = logging.getLogger("tfdp.launch")


@dataclass(frozen=True)
class Ended:
    """How a start of the group has failed.

    Attributes:
      failure: the first worker that failed.
      absent: workers that the others have waited for in vain.
      excluded: workers that are not in the list of one of the others, which goes on without them.
    """

    failure: Failure
    absent: Collection[int] = ()
    excluded: Collection[int] = ()


class Members:
    """The workers that take part; those that stay away or fail again are left out.

    The launchers of several machines decide each for itself. They come to the same group, because
    the workers exchange who did not come before they give up, and because a worker whose list is
    shorter than another one's makes that one shorter.

    Args:
      workers: how many there are.
      here: those that are started on this machine.
      least: how many must remain; None: all.
    """

    def __init__(self, workers: int, here: Collection[int], least: int | None) -> None:
        self._all_here = len(here) == workers
        self._least = workers if least is None else least
        self._failed_last: int | None = None
        self.current: tuple[int, ...] = tuple(range(workers))

    def learn(self, ended: Ended, restarts: int) -> tuple[int, ...]:
        """Takes what the start with this number of restarts has shown; returns who is left out.

        A worker that did not come to the very first start may only be late, so that alone does
        not leave it out.
        """
        out = set(ended.excluded)
        if restarts:
            out |= set(ended.absent)
        index = ended.failure.exit.index
        if not out and index == self._failed_last and self._is_cause(ended.failure):
            out = {index}
        self._failed_last = index
        out &= set(self.current)
        if not out or len(self.current) - len(out) < self._least:
            return ()
        self.current = tuple(each for each in self.current if each not in out)
        self._failed_last = None
        return tuple(sorted(out))

    def _is_cause(self, failure: Failure) -> bool:
        """Whether the first failure on this machine is the first of the group.

        Where another machine's worker dies, those here fail too, with whatever error: only a
        death by signal is one of their own. TensorFlow aborts when it loses the others.
        """
        if self._all_here or failure.stall is not None:
            return True
        return failure.exit.code < 0 and failure.exit.code != -signal.SIGABRT
