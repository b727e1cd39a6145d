"""Keras callbacks of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras

from tfdp.data.batches import EpochBatches
from tfdp.training.checkpoints import Progress, prune_checkpoints, save_checkpoint


class EpochOrder(keras.callbacks.Callback):
    """Gives every epoch its own order of the examples."""

    def __init__(self, batches: EpochBatches) -> None:
        super().__init__()
        self._batches = batches

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._batches.set_epoch(epoch)


class HistoryKeeper(keras.callbacks.Callback):
    """Collects the metrics of each epoch, those before a resume included.

    Attributes:
      history: value of every metric after each epoch.
    """

    def __init__(self, earlier: Mapping[str, list[float]]) -> None:
        super().__init__()
        self.history: dict[str, list[float]] = {
            name: list(values) for name, values in earlier.items()
        }

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(float(value))


class CheckpointSaver(keras.callbacks.Callback):
    """Writes a checkpoint every few epochs and after the last one, and removes old ones.

    Args:
      directory: of the checkpoints.
      every_epochs: from one checkpoint to the next.
      keep: how many to keep.
      steps: says how many steps are finished, over all epochs.
      history: what to store as the history so far.
      write: whether this worker writes; the others only take part in reading the variables.
    """

    def __init__(
        self,
        directory: Path,
        *,
        every_epochs: int,
        keep: int,
        steps: Callable[[], int],
        history: Mapping[str, list[float]],
        write: bool,
    ) -> None:
        super().__init__()
        self._directory = directory
        self._every_epochs = every_epochs
        self._keep = keep
        self._steps = steps
        self._history = history
        self._write = write

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        if (epoch + 1) % self._every_epochs == 0 or epoch + 1 == self.params.get("epochs"):
            self._save(epoch + 1)

    def _save(self, epochs: int) -> None:
        progress = Progress(epochs, self._steps(), self._history)
        save_checkpoint(self._directory, self.model, progress, write=self._write)
        if self._write:
            prune_checkpoints(self._directory, self._keep)
