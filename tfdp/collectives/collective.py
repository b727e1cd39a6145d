"""Sums between workers with TensorFlow's collective ops, once for each worker.

The group is the host CPU of every worker, whatever devices the replicas are on, unless another
device is named.
"""

from __future__ import annotations

import tensorflow as tf

from tfdp.collectives.between_workers import WorkerReduction
from tfdp.collectives.instance_keys import KeyRanges, signature

# TensorFlow numbers the groups of a strategy from 1 on; this one is out of their way.
_GROUP_KEY = 1_000_003
_HOST = "/device:CPU:0"
_HINT = "ring"


class CollectiveReduction(WorkerReduction):
    """TensorFlow's collective ops between the workers, one device of each.

    Its ring sends 2 (N-1)/N of the bytes for each of N workers.

    The workers find the matching operation by a number that each counts for itself (see
    `instance_keys`). It is counted when the operation runs, not when it is traced, because a traced
    function runs often. The counter also keeps the operations in the order of the program, as
    TensorFlow does with all operations that use one resource.

    Args:
        workers: how many, two or more; this process joins their cluster before the first call.
        group_key: apart from that of every other group of collective ops in this process.
        hint: "ring", or "nccl" for devices that are GPUs.
        device: of each worker.
    """

    def __init__(
        self,
        workers: int,
        group_key: int = _GROUP_KEY,
        *,
        hint: str = _HINT,
        device: str = _HOST,
    ) -> None:
        self._workers = workers
        self._hint = hint
        self._device = device
        self._group_key = group_key
        self._counter: tf.Tensor | None = None
        self._ranges = KeyRanges()

    def sum(self, vector: tf.Tensor, when: tf.Tensor | None = None) -> tf.Tensor:
        if vector.shape.num_elements() == 0:
            return vector
        if when is None:
            return self._sum(vector)
        total = tf.cond(when, lambda: self._sum(vector), lambda: tf.identity(vector))
        return tf.ensure_shape(total, vector.shape)

    def gather(self, rows: tf.Tensor) -> tf.Tensor:
        """Joins the rows of all workers; fewer rows travel padded to the most.

        The order is that of the workers' device names as text: worker 10 comes before worker 2.
        """
        with tf.device(self._device):
            sendable = _to_sendable(rows)
            count = tf.shape(rows)[0]
            counts = self._gather(tf.reshape(count, [1]))
            most = tf.reduce_max(counts)
            paddings = tf.scatter_nd([[0, 1]], [most - count], [rows.shape.rank, 2])
            padded = tf.pad(sendable, paddings)
            joined = tf.cond(
                tf.size(padded) > 0,
                lambda: self._gather(padded),
                lambda: tf.repeat(padded, self._workers, axis=0),
            )
            by_worker = tf.reshape(joined, tf.concat([[self._workers], tf.shape(padded)], axis=0))
            kept = tf.boolean_mask(by_worker, tf.sequence_mask(counts, most))
            return tf.ensure_shape(_from_sendable(kept, rows.dtype), [None, *rows.shape[1:]])

    def _sum(self, vector: tf.Tensor) -> tf.Tensor:
        with tf.device(self._device):
            return tf.raw_ops.CollectiveReduceV2(
                input=vector,
                group_size=self._workers,
                group_key=self._group_key,
                instance_key=self._next_key("reduce", vector),
                ordering_token=[self._counter],
                merge_op="Add",
                final_op="Id",
                communication_hint=self._hint,
            )

    def _gather(self, rows: tf.Tensor) -> tf.Tensor:
        """Joins equally many rows of each worker."""
        return tf.raw_ops.CollectiveGatherV2(
            input=rows,
            group_size=self._workers,
            group_key=self._group_key,
            instance_key=self._next_key("gather", rows),
            ordering_token=[self._counter],
            communication_hint=self._hint,
        )

    def _next_key(self, kind: str, tensor: tf.Tensor) -> tf.Tensor:
        return self._ranges.key(signature(kind, tensor), self._next_number())

    def _next_number(self) -> tf.Tensor:
        if self._counter is None:
            # Raw ops, because a `tf.Variable` would become the strategy's: one on each replica.
            with tf.init_scope(), tf.device(self._device):
                self._counter = tf.raw_ops.VarHandleOp(
                    dtype=tf.int32, shape=[], shared_name=f"tfdp_collectives_{self._group_key}"
                )
                tf.raw_ops.AssignVariableOp(resource=self._counter, value=tf.constant(0))
        tf.raw_ops.AssignAddVariableOp(resource=self._counter, value=tf.constant(1))
        return tf.raw_ops.ReadVariableOp(resource=self._counter, dtype=tf.int32)


def _to_sendable(rows: tf.Tensor) -> tf.Tensor:
    """The same values in a dtype that TensorFlow gathers."""
    if rows.dtype == tf.bfloat16:
        return tf.bitcast(rows, tf.float16)
    return tf.cast(rows, tf.int32) if rows.dtype == tf.bool else rows


def _from_sendable(rows: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    return tf.bitcast(rows, dtype) if dtype == tf.bfloat16 else tf.cast(rows, dtype)
