"""Keras on one device, without tfdp."""

from __future__ import annotations

from typing import Any

import keras

from tfdp.bench.peers.feed import LEARNING_RATE, batches, fit_seconds
from tfdp.bench.peers.models import build, loss_of


class KerasSubject:
    """Trains with ``fit`` as Keras has it.

    Args:
      job: see `tf_program`; "model" and "global_batch" count here.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        keras.utils.set_random_seed(1)
        self._model = build(job["model"])
        self._model.compile(keras.optimizers.SGD(LEARNING_RATE), loss_of(job["model"]))
        self._data = batches(job["model"], job["global_batch"])

    def take(self, what: str, count: int) -> list[float]:
        """Seconds of `count` steps."""
        assert what == "steps"
        return fit_seconds(self._model, self._data, count)
