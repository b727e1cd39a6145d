"""Rows of the whole batch, for what cannot be put together from the parts of the replicas."""

from __future__ import annotations

import tensorflow as tf

from tfdp.strategies.step import ReplicaStep


class Place:
    """Where the rows of the calling replica stand in the whole batch.

    Args:
        step: the step that runs.
        rows: scalar int64, rows of this replica's tensors.
    """

    def __init__(self, step: ReplicaStep, rows: tf.Tensor) -> None:
        order = piece_of_replica(step.strategy)
        mine = tf.one_hot(order, step.replicas, dtype=tf.int64) * rows
        counts = step.sum([mine])[0]
        before = tf.range(step.replicas, dtype=tf.int64) < tf.cast(order, tf.int64)
        self._step = step
        self._rows = rows
        self._start = tf.reduce_sum(tf.where(before, counts, tf.zeros_like(counts)))
        self._total = tf.reduce_sum(counts)

    def gather(self, own: tf.Tensor) -> tf.Tensor:
        """Rows of all replicas, differentiable with respect to this replica's only.

        Args:
            own: shape (rows, ...), a number or a boolean; a scalar is returned as it is.
        """
        if own.shape.rank == 0:
            return own
        addable = own if own.dtype.is_floating else tf.cast(own, tf.int64)
        after = self._total - self._start - self._rows
        padding = [[self._start, after]] + [[0, 0]] * (own.shape.rank - 1)
        whole = tf.stop_gradient(self._step.sum([tf.stop_gradient(tf.pad(addable, padding))])[0])
        end = self._start + self._rows
        joined = tf.concat([whole[: self._start], addable, whole[end:]], axis=0)
        joined.set_shape([None, *own.shape[1:]])
        return tf.cast(joined, own.dtype)


def piece_of_replica(strategy: tf.distribute.Strategy) -> tf.Tensor:
    """Scalar int32: which piece of the global batch the calling replica works on.

    Follows `tfdp.data.split.shard_batches`.
    """
    context = tf.distribute.get_replica_context()
    replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
    local = len(strategy.extended.worker_devices)
    workers = strategy.num_replicas_in_sync // local
    return (replica % local) * workers + replica // local
