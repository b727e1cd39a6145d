"""What the measured models are fed with, and the seconds of the steps of a `fit`."""

from __future__ import annotations

import time
from typing import Any

import keras
import tensorflow as tf

from tfdp.bench.peers.models import make_batch

_BATCHES_HELD = 4
LEARNING_RATE = 1e-3


def batches(model: str, rows: int) -> tf.data.Dataset:
    """Batches of `rows` made-up examples, for ever, ahead of the steps."""
    made = make_batch(model, rows * _BATCHES_HELD)
    dataset = tf.data.Dataset.from_tensor_slices((made.inputs, made.labels))
    return dataset.repeat().batch(rows, drop_remainder=True).prefetch(2)


class StepSeconds(keras.callbacks.Callback):
    """The seconds from the end of each step to the end of the next."""

    def __init__(self) -> None:
        super().__init__()
        self._ends: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._ends.append(time.perf_counter())

    def seconds(self) -> list[float]:
        """One less than there were steps."""
        return [b - a for a, b in zip(self._ends, self._ends[1:], strict=False)]


def fit_seconds(model: keras.Model, data: Any, count: int) -> list[float]:
    """Seconds of `count` steps of ``model.fit``; one step before them is not counted."""
    times = StepSeconds()
    model.fit(data, steps_per_epoch=count + 1, epochs=1, verbose=0, callbacks=[times])
    return times.seconds()
