"""Reductions that note when each buffer was ready and when its sum was there.

The times are taken by operations of TensorFlow's graph, in the executor's own threads, and are
those of the machine's clock (seconds since 1970), so processes of one machine share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from tfdp.collectives.between_workers import WorkerReduction
from tfdp.collectives.local import LocalReduction

_HOST = "/device:CPU:0"


@dataclass
class Notes:
    """What was noted since it was last cleared.

    Attributes:
        losses: when each local replica had its loss.
        ready: by bucket and replica, when the gradients were there.
        ended: by bucket and replica, when their sum was there.
        sizes: bytes of each bucket.
    """

    losses: dict[int, float] = field(default_factory=dict)
    ready: dict[int, dict[int, float]] = field(default_factory=dict)
    ended: dict[int, dict[int, float]] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)

    def clear(self) -> None:
        """Forgets the times; sizes stay."""
        self.losses.clear()
        self.ready.clear()
        self.ended.clear()

    def stamp(self, *after: Any) -> tf.Tensor:
        """The time at which tensors are there."""
        with tf.device(_HOST), tf.control_dependencies(after):
            return tf.timestamp()

    def note_loss(self, loss: tf.Tensor, replica: int) -> None:
        """In a replica, while its step is traced."""

        def note(time: Any) -> None:
            self.losses[replica] = float(time)

        _call(note, [self.stamp(loss)])

    def note_bucket(
        self, number: int, replica: int, ready: tf.Tensor, ended: tf.Tensor, size: int
    ) -> None:
        """While a reduction is traced."""
        self.sizes[number] = size

        def note(begin: Any, end: Any) -> None:
            self.ready.setdefault(number, {})[replica] = float(begin)
            self.ended.setdefault(number, {})[replica] = float(end)

        _call(note, [ready, ended])


class StampedWorkers(WorkerReduction):
    """Another reduction between workers, with the times of its sums.

    Args:
        inner: what reduces; None: nothing is sent.
        notes: where the times go.
    """

    def __init__(self, inner: WorkerReduction | None, notes: Notes) -> None:
        self._inner = inner
        self._notes = notes
        self._count = 0

    @property
    def rank(self) -> int | None:
        return None if self._inner is None else self._inner.rank

    def begin(self) -> None:
        """Numbers from 0 again, for another trace."""
        self._count = 0

    def sum(self, vector: tf.Tensor, when: tf.Tensor | None = None) -> tf.Tensor:
        return self.sum_all([vector], when)[0]

    def sum_all(
        self, vectors: Sequence[tf.Tensor], when: tf.Tensor | None = None
    ) -> list[tf.Tensor]:
        number, self._count = self._count, self._count + 1
        ready = self._notes.stamp(*vectors)
        if self._inner is None:
            totals = [tf.identity(vector) for vector in vectors]
        else:
            totals = self._inner.sum_all(vectors, when)
        size = sum(_bytes(vector) for vector in vectors)
        self._notes.note_bucket(number, 0, ready, self._notes.stamp(*totals), size)
        return totals

    def gather(self, rows: tf.Tensor) -> tf.Tensor:
        return rows if self._inner is None else self._inner.gather(rows)


class StampedDevices(LocalReduction):
    """Another reduction between devices, with the times of its sums of gradients.

    Args:
        inner: what reduces; where `silent` is set nothing is.
        notes: where the times go.
        silent: whether the vectors come back as they are.
    """

    def __init__(self, inner: LocalReduction, notes: Notes, silent: bool) -> None:
        self._inner = inner
        self._notes = notes
        self._silent = silent
        self._count = 0
        self.counts = False
        """Whether what is traced now are gradients."""

    def begin(self) -> None:
        """As that of `StampedWorkers`."""
        self._count = 0

    def sum(self, vectors: Sequence[tf.Tensor], devices: Sequence[str]) -> list[tf.Tensor]:
        if not self.counts:
            return self._inner.sum(vectors, devices)
        number, self._count = self._count, self._count + 1
        ready = [self._notes.stamp(vector) for vector in vectors]
        totals = list(vectors) if self._silent else self._inner.sum(vectors, devices)
        for replica, (begin, total) in enumerate(zip(ready, totals, strict=True)):
            ended = self._notes.stamp(total)
            self._notes.note_bucket(number, replica, begin, ended, _bytes(total))
        return totals


def _call(function: Any, inputs: list[tf.Tensor]) -> None:
    with tf.device(_HOST):
        tf.numpy_function(function, inputs, [])


def _bytes(vector: tf.Tensor) -> int:
    return int(vector.shape.num_elements() or 0) * int(vector.dtype.size)
