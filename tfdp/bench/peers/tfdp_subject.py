"""tfdp: steps of ``fit``, with and without the sum of the gradients, and all-reduces."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras

from tfdp.bench.peers.feed import LEARNING_RATE, batches, fit_seconds
from tfdp.bench.peers.models import build, loss_of
from tfdp.bench.peers.turns import seconds_of
from tfdp.bench.timing import reduction_of
from tfdp.strategies.factory import strategy
from tfdp.strategies.step import ReplicaStep


class TfdpSubject:
    """One process of tfdp.

    Args:
      job: see `tf_program`. "devices", "reducer", "compression" and "bucket_mb" are those of
        `tfdp.strategy`; with "model" and "global_batch" it trains, without it reduces a buffer in
        "tensors" equal ones.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        workers = len(job["addresses"])
        kind = "multi_worker" if workers > 1 else "mirrored" if job["devices"] > 1 else "single"
        options = {} if kind == "single" else {"cross_device_ops": job["reducer"]}
        self._strategy = strategy(
            kind,
            devices=job["devices"],
            bucket_mb=job.get("bucket_mb", "auto"),
            compression=job.get("compression", "none"),
            **options,
        )
        self._job = job
        self._models: dict[bool, keras.Model] = {}
        self._reductions: dict[int, Callable[[], None]] = {}
        self._inputs: Iterator[Any] | None = None
        if "model" in job:
            self._data = batches(job["model"], job["global_batch"])
            self._train(True, 2)

    def take(self, what: str, count: int, size: int = 0) -> list[float]:
        """Seconds of `count` steps, steps without communication, batches, or sums of `size` bytes.

        Args:
          what: "steps", "compute", "input" or "allreduce".
          count: how many of them.
          size: of the buffer of an all-reduce.
        """
        if what == "input":
            return self._draw(count)
        if what == "allreduce":
            return self._reduce(size, count)
        return self._train(what == "steps", count)

    def _train(self, communicates: bool, count: int) -> list[float]:
        with contextlib.nullcontext() if communicates else own_gradients_only():
            if communicates not in self._models:
                self._models[communicates] = self._build()
                fit_seconds(self._models[communicates], self._data, 1)
            return fit_seconds(self._models[communicates], self._data, count)

    def _build(self) -> keras.Model:
        keras.utils.set_random_seed(1)
        with self._strategy.scope():
            model = build(self._job["model"])
            model.compile(keras.optimizers.SGD(LEARNING_RATE), loss_of(self._job["model"]))
        return model

    def _draw(self, count: int) -> list[float]:
        """The batches come ahead of time where nobody computes: the first are left out."""
        if self._inputs is None:
            self._inputs = iter(self._strategy.experimental_distribute_dataset(self._data))
            for _ in range(4):
                next(self._inputs)
        begin = time.perf_counter()
        for _ in range(count):
            next(self._inputs)
        return [(time.perf_counter() - begin) / count] * count

    def _reduce(self, size: int, count: int) -> list[float]:
        if size not in self._reductions:
            self._reductions.clear()
            self._reductions[size] = reduction_of(self._strategy, size, self._job.get("tensors", 1))
            seconds_of(self._reductions[size], 2)
        return seconds_of(self._reductions[size], count)


@contextlib.contextmanager
def own_gradients_only() -> Iterator[None]:
    """Steps that are traced inside do not sum their gradients: each replica applies its own.

    Everything else of the step is as it was. The replicas' models drift apart; it is for timing.
    """

    def keep(self: ReplicaStep, gradients: Sequence[Any], state: Any = None) -> list[Any]:
        return list(gradients)

    stock = ReplicaStep.sum_gradients
    ReplicaStep.sum_gradients = keep  # type: ignore[method-assign]
    try:
        yield
    finally:
        ReplicaStep.sum_gradients = stock  # type: ignore[method-assign]
