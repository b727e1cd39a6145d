"""Finds out when the replicas no longer have the same variables.

Every replica computes the same update, so their copies stay equal to the bit. Where they do not,
a memory fault, a kernel that does not repeat itself or a program that assigned a variable on some
replicas only has made them so, and what is trained is no longer what one device would train.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tfdp.errors import DriftError
from tfdp.strategies.checksum import equal_variables, fold, replica_checksums
from tfdp.training.incidents import IncidentLog
from tfdp.training.position import PositionCallback, name_replicas

_HINT = (
    "Nothing that was saved since the last check can be trusted. If it is always the same replica, "
    "suspect its device. Else look for code that assigns a variable on one worker or replica only; "
    "on GPUs, training.deterministic rules out kernels that add in a changing order."
)


class DriftGuard(PositionCallback):
    """Compares all replicas' variables every few steps and when `fit` ends.

    Also after an epoch, unless less than a tenth of the steps have been taken since the last time.

    The checksums of weights, statistics and the optimizer's state are compared between the local
    replicas, and by one small collective between the workers. With one replica it does nothing.

    Args:
      every_steps: from one comparison to the next; 0: never, except where `check` is called.
      incidents: where to write what was found; None in all processes but one.
      finished_steps: see `PositionCallback`.
      finished_steps_in_epoch: see `PositionCallback`.

    Raises:
      DriftError: by `fit`, on all workers alike.
    """

    def __init__(
        self,
        every_steps: int = 1000,
        *,
        incidents: IncidentLog | None = None,
        finished_steps: int = 0,
        finished_steps_in_epoch: int = 0,
    ) -> None:
        super().__init__(
            finished_steps=finished_steps, finished_steps_in_epoch=finished_steps_in_epoch
        )
        if every_steps < 0:
            raise ValueError(f"every_steps must be at least 0, got {every_steps}")
        self.every_steps = every_steps
        self.incidents = incidents
        self._equal_step = finished_steps
        self._checked = False

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        self._checked = False

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        if not self._checked:
            self._equal_step = min(self._equal_step, self.total_steps)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        before = self.total_steps
        super().on_train_batch_end(batch, logs)
        # Not a remainder: with several steps in a call, the multiple itself may never come up.
        if self.every_steps and self.total_steps // self.every_steps > before // self.every_steps:
            self.check()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        if self.every_steps and 10 * (self.total_steps - self._equal_step) >= self.every_steps:
            self.check()

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        if self.every_steps:
            self.check()

    def check(self) -> None:
        """Compares now. All workers have to call it together.

        Raises:
          DriftError: on all workers, if a variable is not the same on all replicas.
        """
        strategy = self.model.distribute_strategy
        if strategy.num_replicas_in_sync == 1:
            return
        if self._checked and self._equal_step == self.total_steps:
            return
        variables = equal_variables(self.model)
        own = replica_checksums(variables, strategy)
        folded = strategy.tfdp_gather_numbers([fold(sums) for sums in own])
        if len({number for worker in folded for number in worker}) == 1:
            self._equal_step, self._checked = self.total_steps, True
            return
        everyone = strategy.tfdp_gather_numbers([number for sums in own for number in sums])
        table = [
            worker[start : start + len(variables)]
            for worker in everyone
            for start in range(0, len(worker), len(variables))
        ]
        raise self._error([variable.path for variable in variables], table, len(own))

    def _error(
        self, paths: Sequence[str], table: Sequence[Sequence[int]], local: int
    ) -> DriftError:
        """Says what differs.

        Args:
          paths: of the variables.
          table: checksum of each variable on each replica of all workers, `[replica][variable]`.
          local: replicas of a worker.
        """
        different = [place for place in range(len(paths)) if len({row[place] for row in table}) > 1]
        first = different[0]
        odd = odd_ones_out([row[first] for row in table])
        path = paths[first]
        if odd:
            named = name_replicas(odd, local, len(table))
            which = f"{path} is not the same on {named} as on the other {len(table) - len(odd)}"
        else:
            which = (
                f"{path} is not the same on all {len(table)} replicas, and there is no majority to "
                "tell which of them is wrong"
            )
        more = f", and neither are {len(different) - 1} more variables" if different[1:] else ""
        if self.incidents is not None:
            workers = {replica // local for replica in odd}
            self.incidents.append(
                "drift",
                epoch=self.epoch,
                step=self.total_steps,
                worker=workers.pop() if len(workers) == 1 else None,
                variables=[paths[place] for place in different],
                replicas=list(odd),
                equal_step=self._equal_step,
            )
        return DriftError(
            f"the replicas have drifted apart at {self.place}: {which}{more}. "
            f"They were equal at step {self._equal_step}.",
            hint=_HINT,
            variable=path,
            replicas=odd,
            step=self.total_steps,
            equal_step=self._equal_step,
        )


def odd_ones_out(checksums: Sequence[int]) -> tuple[int, ...]:
    """Indices of those that differ from what more than half agree on; none without such a half."""
    (common, count), *_ = Counter(checksums).most_common(1)
    if 2 * count <= len(checksums):
        return ()
    return tuple(place for place, number in enumerate(checksums) if number != common)
