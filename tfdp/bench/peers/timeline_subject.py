"""tfdp, with the times at which the parts of a step begin and end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from tfdp.bench.peers.feed import LEARNING_RATE, batches, fit_seconds
from tfdp.bench.peers.models import build, loss_of
from tfdp.bench.peers.stamps import Notes, StampedDevices, StampedWorkers
from tfdp.errors import StrategyError
from tfdp.strategies.factory import strategy
from tfdp.strategies.keras_compat.local_ops import LocalOps
from tfdp.strategies.step import ReplicaStep

# Since noting costs a call into Python for each bucket, step times are those of the same model
# without notes.


class TimelineSubject:
    """One process.

    Args:
      job: as that of `TfdpSubject`, and "silent": whether gradients are left where they are.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        workers = len(job["addresses"])
        self._strategy = strategy(
            "multi_worker" if workers > 1 else "mirrored",
            devices=job["devices"],
            cross_device_ops=job["reducer"],
            bucket_mb=job["bucket_mb"],
        )
        self._job = job
        self._data = batches(job["model"], job["global_batch"])
        self._plain = self._build()
        if not job["silent"]:
            fit_seconds(self._plain, self._data, 1)
        self._notes = Notes()
        self._stamped = self._install()
        self._traced = self._build()
        self._watch_loss()
        with self._tracing():
            fit_seconds(self._traced, self._data, 1)

    def take(self, what: str, count: int) -> list[Any]:
        """Seconds of `count` steps, or the times of `count` steps.

        Args:
          what: "steps" or "trace".
          count: how many.
        """
        if what == "steps":
            return fit_seconds(self._plain, self._data, count)
        keeper = _Keeper(self._notes)
        self._traced.fit(
            self._data, steps_per_epoch=count + 1, epochs=1, verbose=0, callbacks=[keeper]
        )
        return keeper.steps[1:]

    def _build(self) -> keras.Model:
        keras.utils.set_random_seed(1)
        with self._strategy.scope():
            model = build(self._job["model"])
            model.compile(keras.optimizers.SGD(LEARNING_RATE), loss_of(self._job["model"]))
        return model

    def _install(self) -> StampedWorkers | StampedDevices:
        """From here on what is traced takes notes; what was traced before does not."""
        extended: Any = self._strategy.extended
        silent = self._job["silent"]
        if extended.tfdp_gradient_reduction is not None:
            inner = None if silent else extended.tfdp_gradient_reduction
            extended.tfdp_gradient_reduction = stamped = StampedWorkers(inner, self._notes)
            return stamped
        operations = extended.tfdp_cross_device_ops
        if isinstance(operations, LocalOps):
            operations._reduction = local = StampedDevices(
                operations._reduction, self._notes, silent
            )
            return local
        raise StrategyError(
            f"the times of {self._job['reducer']} cannot be taken: it sums inside TensorFlow.",
            hint="Use mpi or two_level between workers, ring between the devices of a process.",
        )

    def _watch_loss(self) -> None:
        stock, notes = self._traced.compute_loss, self._notes

        def compute_loss(*args: Any, **kwargs: Any) -> Any:
            loss = stock(*args, **kwargs)
            context = tf.distribute.get_replica_context()
            if context is not None:
                notes.note_loss(loss, context._replica_id)
            return loss

        self._traced.compute_loss = compute_loss

    @contextlib.contextmanager
    def _tracing(self) -> Iterator[None]:
        """Tells the reduction between devices which sums are those of gradients."""
        stock, stamped = ReplicaStep.sum_gradients, self._stamped

        def sum_gradients(step: ReplicaStep, gradients: Any, state: Any = None) -> list[Any]:
            stamped.begin()
            if isinstance(stamped, StampedDevices):
                stamped.counts = True
            try:
                return stock(step, gradients, state)
            finally:
                if isinstance(stamped, StampedDevices):
                    stamped.counts = False

        ReplicaStep.sum_gradients = sum_gradients  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            ReplicaStep.sum_gradients = stock  # type: ignore[method-assign]


class _Keeper(keras.callbacks.Callback):
    """Keeps the notes of each step."""

    def __init__(self, notes: Notes) -> None:
        super().__init__()
        self.steps: list[dict[str, Any]] = []
        self._notes = notes
        self._begin = 0.0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._notes.clear()
        self._begin = time.time()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        notes = self._notes
        self.steps.append(
            {
                "begin": self._begin,
                "end": time.time(),
                "losses": [notes.losses[replica] for replica in sorted(notes.losses)],
                "buckets": [
                    {
                        "bytes": notes.sizes[number],
                        "ready": [notes.ready[number][r] for r in sorted(notes.ready[number])],
                        "ended": [notes.ended[number][r] for r in sorted(notes.ended[number])],
                    }
                    for number in sorted(notes.ready)
                ],
            }
        )
