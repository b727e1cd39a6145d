"""What a reducer offers that sums once for each worker rather than once for each replica."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import tensorflow as tf


class WorkerReduction(abc.ABC):
    """Sums and gathers between the workers, called by every worker in the same order."""

    @property
    def rank(self) -> int | None:
        """This worker's number in the reduction's own order, if it has one."""
        return None

    @abc.abstractmethod
    def sum(self, vector: tf.Tensor, when: tf.Tensor | None = None) -> tf.Tensor:
        """Sums a vector over the workers.

        Args:
            vector: shape (n,), the same on every worker, in host memory.
            when: boolean scalar, the same on every worker; where it is False nothing is sent and
                the vector comes back as it is. None: always.

        Returns:
            Shape (n,), the dtype of `vector`, the same bits on every worker.
        """

    def sum_all(
        self, vectors: Sequence[tf.Tensor], when: tf.Tensor | None = None
    ) -> list[tf.Tensor]:
        """Sums several vectors of one dtype at once, as `sum` does one."""
        if len(vectors) == 1:
            return [self.sum(vectors[0], when)]
        joined = self.sum(tf.concat(vectors, axis=0), when)
        return list(tf.split(joined, [tf.size(vector) for vector in vectors]))

    @abc.abstractmethod
    def gather(self, rows: tf.Tensor) -> tf.Tensor:
        """Joins the rows of all workers, in one order of the workers for all calls and workers.

        Args:
            rows: shape (n, ...), where n may differ between the workers.

        Returns:
            Shape (sum of n, ...).
        """
