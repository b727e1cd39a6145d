"""Reduction in two levels: inside each worker first, then once for each worker between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfdp.collectives.between_workers import WorkerReduction
from tfdp.collectives.buckets import DEFAULT_BUCKET_BYTES, reduce_in_buckets
from tfdp.collectives.error_feedback import CompressionState, ErrorFeedback
from tfdp.collectives.ordered import ordered_sum


def sum_inside(values: Sequence[Any]) -> Any:
    """Sums the values of the local replicas in host memory.

    Args:
        values: tensors of one shape, or IndexedSlices, one for each replica.
    """
    with tf.device("/device:CPU:0"):
        if isinstance(values[0], tf.IndexedSlices):
            return tf.IndexedSlices(
                tf.concat([each.values for each in values], axis=0),
                tf.concat([each.indices for each in values], axis=0),
                values[0].dense_shape,
            )
        return ordered_sum(values)


def sum_between_workers(
    reduction: WorkerReduction | None,
    values: Sequence[Any],
    when: tf.Tensor | None = None,
    bucket_bytes: int = DEFAULT_BUCKET_BYTES,
    state: CompressionState | None = None,
) -> list[Any]:
    """Sums one value of each worker: dense tensors in buckets, IndexedSlices by joining them.

    Dense tensors that a compression keeps state of go its way instead.
    """
    assert reduction is not None
    results = list(values)
    dense = [i for i, value in enumerate(values) if not isinstance(value, tf.IndexedSlices)]
    tensors = [tf.convert_to_tensor(values[i]) for i in dense]
    if state is not None and isinstance(reduction, ErrorFeedback):
        summed = reduction.sum_compressed(tensors, state.of(dense), when)
    else:
        summed = reduce_in_buckets(
            tensors, bucket_bytes, lambda each: reduction.sum_all(each, when)
        )
    for place, value in zip(dense, summed, strict=True):
        results[place] = value
    for i, value in enumerate(values):
        if isinstance(value, tf.IndexedSlices):
            results[i] = tf.IndexedSlices(
                reduction.gather(value.values), reduction.gather(value.indices), value.dense_shape
            )
    return results


def spread(value: Any, devices: Sequence[str]) -> list[Any]:
    """Copies of a value on each of the devices."""
    copies = []
    for device in devices:
        with tf.device(device):
            if isinstance(value, tf.IndexedSlices):
                parts = tf.identity(value.values), tf.identity(value.indices)
                copies.append(tf.IndexedSlices(*parts, value.dense_shape))
            else:
                copies.append(tf.identity(value))
    return copies
