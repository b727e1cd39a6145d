"""Workers as threads of one process, whose sums NumPy makes: what a compression is tested with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from tfdp.collectives.between_workers import WorkerReduction

DEADLINE_SECONDS = 60


class Seat(WorkerReduction):
    """One worker's reduction; counts what it sends."""

    def __init__(self, table: list[Any], barrier: threading.Barrier, rank: int) -> None:
        self._table, self._barrier, self._rank = table, barrier, rank
        self.sent = 0

    def sum(self, vector: tf.Tensor, when: tf.Tensor | None = None) -> tf.Tensor:
        if when is not None and not bool(when):
            return vector
        return tf.constant(np.sum(self._exchange(vector.numpy()), axis=0), vector.dtype)

    def gather(self, rows: tf.Tensor) -> tf.Tensor:
        return tf.constant(np.concatenate(self._exchange(rows.numpy())), rows.dtype)

    def _exchange(self, mine: np.ndarray) -> list[np.ndarray]:
        self.sent += mine.size
        self._table[self._rank] = mine
        self._barrier.wait(DEADLINE_SECONDS)
        found = list(self._table)
        self._barrier.wait(DEADLINE_SECONDS)
        return found


def as_workers(count: int, work: Callable[[int, Seat], Any]) -> list[Any]:
    """What `work(rank, seat)` returns for each of the workers, which run at the same time."""
    table: list[Any] = [None] * count
    barrier = threading.Barrier(count)
    seats = [Seat(table, barrier, rank) for rank in range(count)]

    def run(rank: int) -> Any:
        try:
            return work(rank, seats[rank])
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))
