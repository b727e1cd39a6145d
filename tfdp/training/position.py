"""Where in a run Keras is, and how replicas are named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras


class PositionCallback(keras.callbacks.Callback):
    """A callback that counts; others build on it. `Checkpoints` keeps its count for a resumed run.

    Args:
      finished_steps: steps of the run that were finished before this process began.
      finished_steps_in_epoch: how many of them belong to the epoch that `fit` begins with. Keras'
        numbers of the batches go on from there.

    Attributes:
      epoch: number of the epoch, from 1; 0 before the first.
      step_in_epoch: steps finished in it.
      total_steps: steps finished since the run began, over all epochs.
    """

    def __init__(self, *, finished_steps: int = 0, finished_steps_in_epoch: int = 0) -> None:
        super().__init__()
        self.epoch = 0
        self.step_in_epoch = 0
        self.total_steps = finished_steps
        self._before = finished_steps_in_epoch
        self._between_epochs = True

    @property
    def place(self) -> str:
        """As in "step 12 (epoch 2, step 4)"."""
        return f"step {self.total_steps} (epoch {self.epoch}, step {self.step_in_epoch})"

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self.epoch, self._between_epochs = epoch + 1, False
        self.step_in_epoch, self._before = self._before, 0

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        # With several steps in one call, Keras counts the last call of an epoch in full.
        steps = self.params.get("steps")
        self.go_to_step(batch + 1 if steps is None else min(batch + 1, steps))

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._between_epochs = True

    def go_to_step(self, step_in_epoch: int) -> None:
        """Sets how many steps of the epoch are finished; the total follows."""
        self.total_steps += step_in_epoch - self.step_in_epoch
        self.step_in_epoch = step_in_epoch

    def state_dict(self) -> dict[str, int]:
        """What a checkpoint keeps."""
        step_in_epoch = 0 if self._between_epochs else self.step_in_epoch
        return {"total_steps": self.total_steps, "step_in_epoch": step_in_epoch}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Goes on from what a checkpoint has kept, when `fit` begins."""
        self.total_steps, self._before = state["total_steps"], state["step_in_epoch"]


def name_replicas(replicas: Sequence[int], local: int, total: int) -> str:
    """As in "replica 3 (worker 1)".

    Args:
      replicas: counted over all workers.
      local: replicas of a worker.
      total: replicas of all workers.
    """
    names = [f"{r} (worker {r // local})" if total > local else str(r) for r in replicas]
    return ("replica " if len(names) == 1 else "replicas ") + ", ".join(names)
