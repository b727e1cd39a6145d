"""Measures a run while Keras trains it, and tells everyone who listens."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import keras


@dataclass(frozen=True)
class Report:
    """How the run stands after a step, or after an epoch.

    Attributes:
      epoch: number of the epoch, from 1.
      epochs: number of the last epoch.
      step: steps finished in this epoch.
      steps: steps in an epoch, or None where nobody knows yet.
      total_steps: steps finished since the run began, over all epochs.
      loss: mean loss of the epoch so far.
      metrics: the other metrics; with the validation after an epoch.
      images_per_second: examples in a second, over all replicas: in this epoch so far, without
        validation and without the first step, which builds the graph. None before there are any.
      replicas: replicas, over all workers.
      seconds_left: until the end of training, as far as can be told.
    """

    epoch: int
    epochs: int
    step: int
    steps: int | None
    total_steps: int
    loss: float
    metrics: Mapping[str, float]
    images_per_second: float | None
    replicas: int
    seconds_left: float | None


class Listener(Protocol):
    """Somebody who wants to know how the run stands."""

    def step(self, report: Report) -> None:
        """Called after every call into TensorFlow, which is one step or several."""

    def epoch(self, report: Report) -> None:
        """Called after every epoch and its validation."""


class Telemetry(keras.callbacks.Callback):
    """The callback that makes the reports.

    Args:
      listeners: whom to tell.
      replicas: replicas, over all workers.
      rows_in_step: examples in step number n (from 0) of an epoch, over all replicas.
      steps: steps in an epoch, or None where it is found out at the end of the first.
      finished_steps: steps of the run that were finished before this process began.
      finished_steps_in_epoch: how many of them belong to the epoch that it begins with.
      clock: seconds that pass.
    """

    def __init__(
        self,
        listeners: Sequence[Listener],
        *,
        replicas: int,
        rows_in_step: Callable[[int], int],
        steps: int | None,
        finished_steps: int = 0,
        finished_steps_in_epoch: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.total_steps = finished_steps
        self._before = finished_steps_in_epoch
        self._listeners = listeners
        self._replicas = replicas
        self._rows_in_step = rows_in_step
        self._steps = steps
        self._clock = clock
        self._epoch = 0
        self._step = 0
        self._rows = 0
        self._epoch_start = clock()
        self._timed_seconds = 0.0
        self._start: float | None = None
        self._timed_steps = 0

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._epoch, self._rows = epoch + 1, 0
        self._step, self._before = self._before, 0
        self._epoch_start, self._timed_seconds = self._clock(), 0.0

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        first, self._step = self._step, self._clamp(batch + 1)
        self.total_steps += self._step - first
        now = self._clock()
        if self._start is None:
            self._start = self._epoch_start = now
        else:
            self._rows += sum(map(self._rows_in_step, range(first, self._step)))
            self._timed_steps += self._step - first
            self._timed_seconds = now - self._epoch_start
        report = self._report(logs or {})
        for listener in self._listeners:
            listener.step(report)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._steps = self._step
        report = self._report(logs or {})
        for listener in self._listeners:
            listener.epoch(report)

    def _clamp(self, step: int) -> int:
        """With several steps in one call, Keras counts the last call of an epoch in full."""
        return step if self._steps is None else min(step, self._steps)

    def _report(self, logs: Mapping[str, Any]) -> Report:
        values = {name: float(value) for name, value in logs.items()}
        rate = self._rows / self._timed_seconds if self._timed_seconds > 0 else None
        epochs = self.params.get("epochs", self._epoch)
        return Report(
            epoch=self._epoch,
            epochs=epochs,
            step=self._step,
            steps=self._steps,
            total_steps=self.total_steps,
            loss=values.pop("loss", float("nan")),
            metrics=values,
            images_per_second=rate,
            replicas=self._replicas,
            seconds_left=self._seconds_left(epochs),
        )

    def _seconds_left(self, epochs: int) -> float | None:
        if self._steps is None or self._start is None or not self._timed_steps:
            return None
        steps_left = (epochs - self._epoch + 1) * self._steps - self._step
        return (self._clock() - self._start) / self._timed_steps * steps_left
