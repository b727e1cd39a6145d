"""A `LocalReduction` as TensorFlow's cross-device operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import cross_device_ops, distribute_utils, values

from tfdp.collectives.local import LocalReduction, join_slices, sum_in_buckets
from tfdp.collectives.ordered import ordered_sum


class LocalOps(tf.distribute.ReductionToOneDevice):
    """Sums over all devices by the reduction; everything else on one of them.

    Args:
        reduction: between the devices of a process.
        bucket_bytes: see `tfdp.collectives.buckets.fill`.
    """

    def __init__(self, reduction: LocalReduction, bucket_bytes: int) -> None:
        super().__init__(accumulation_fn=ordered_sum)
        self._reduction = reduction
        self._bucket_bytes = bucket_bytes

    def reduce_implementation(
        self, reduce_op: Any, per_replica_value: Any, destinations: Any, options: Any
    ) -> Any:
        if _stays(per_replica_value, destinations):
            return self._all_reduce_values(reduce_op, [per_replica_value])[0]
        return super().reduce_implementation(reduce_op, per_replica_value, destinations, options)

    def batch_reduce_implementation(
        self, reduce_op: Any, value_destination_pairs: Any, options: Any
    ) -> Any:
        if all(_stays(value, place) for value, place in value_destination_pairs):
            return self._all_reduce_values(
                reduce_op, [value for value, _ in value_destination_pairs]
            )
        return super().batch_reduce_implementation(reduce_op, value_destination_pairs, options)

    def _all_reduce_values(self, reduce_op: Any, found: Sequence[Any]) -> list[Any]:
        devices = found[0]._devices
        parts = [list(value.values) for value in found]
        results: list[Any] = [None] * len(found)
        dense = []
        for place, part in enumerate(parts):
            if isinstance(part[0], tf.IndexedSlices):
                results[place] = join_slices(part, devices)
            else:
                dense.append(place)
        tensors = [[tf.convert_to_tensor(each) for each in parts[place]] for place in dense]
        sums = sum_in_buckets(self._reduction, tensors, devices, self._bucket_bytes)
        for place, value in zip(dense, sums, strict=True):
            results[place] = value
        if reduce_op == tf.distribute.ReduceOp.MEAN:
            results = [_divided(value, devices) for value in results]
        return [distribute_utils.regroup(each, wrap_class=values.Mirrored) for each in results]


def _stays(value: Any, destinations: Any) -> bool:
    """Whether each part of the value is wanted where it is."""
    spread = isinstance(value, values.PerReplica)
    return spread and cross_device_ops._devices_match(value, destinations)


def _divided(parts: Sequence[Any], devices: Sequence[str]) -> list[Any]:
    means = []
    for part, device in zip(parts, devices, strict=True):
        with tf.device(device):
            if isinstance(part, tf.IndexedSlices):
                rows = part.values / tf.cast(len(devices), part.values.dtype)
                means.append(tf.IndexedSlices(rows, part.indices, part.dense_shape))
            else:
                means.append(part / tf.cast(len(devices), part.dtype))
    return means
