"""Sums between the devices of one process: what a reducer offers that works on plain tensors."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import tensorflow as tf

from tfdp.collectives.buckets import fill


class LocalReduction(abc.ABC):
    """Sums vectors over the devices of one process, as ordinary operations of a graph or eagerly.

    The simplest way to a reducer of one's own: `Reducer.local_reduction` returns one of these.
    """

    @abc.abstractmethod
    def sum(self, vectors: Sequence[tf.Tensor], devices: Sequence[str]) -> list[tf.Tensor]:
        """Sums a vector over the devices.

        Args:
            vectors: one for each device and on it, of shape (n,) and one dtype; n may be 0, or
                known only when it runs.
            devices: names, for `tf.device`.

        Returns:
            The sum, on each of the devices: the same bits on all.
        """


def sum_in_buckets(
    reduction: LocalReduction,
    values: Sequence[Sequence[tf.Tensor]],
    devices: Sequence[str],
    bucket_bytes: int,
) -> list[list[tf.Tensor]]:
    """Sums dense tensors of any shapes and dtypes, many in one buffer.

    Args:
        reduction: sums one buffer.
        values: for each value one tensor of each device.
        devices: names.
        bucket_bytes: see `tfdp.collectives.buckets.fill`.

    Returns:
        The sums, in the order and with the shapes of `values`.
    """
    places = range(len(devices))
    results: list[list[tf.Tensor]] = [[] for _ in values]
    for bucket in fill([value[0] for value in values], bucket_bytes):
        vectors = []
        for place in places:
            with tf.device(devices[place]):
                vectors.append(_pack([values[member][place] for member in bucket]))
        totals = reduction.sum(vectors, devices)
        for place in places:
            with tf.device(devices[place]):
                parts = _unpack(totals[place], [values[member][place] for member in bucket])
            for member, part in zip(bucket, parts, strict=True):
                results[member].append(part)
    return results


def join_slices(
    parts: Sequence[tf.IndexedSlices], devices: Sequence[str]
) -> list[tf.IndexedSlices]:
    """IndexedSlices that add up to the sum of all: the rows of every device, in one order."""
    joined = []
    for place, device in enumerate(devices):
        with tf.device(device):
            joined.append(
                tf.IndexedSlices(
                    tf.concat([part.values for part in parts], axis=0),
                    tf.concat([part.indices for part in parts], axis=0),
                    parts[place].dense_shape,
                )
            )
    return joined


def _pack(members: Sequence[tf.Tensor]) -> tf.Tensor:
    flat = [tf.reshape(member, [-1]) for member in members]
    return tf.concat(flat, axis=0) if len(flat) > 1 else flat[0]


def _unpack(vector: tf.Tensor, members: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    parts = [vector]
    if len(members) > 1:  # whose sizes are known: see `fill`
        parts = tf.split(vector, [member.shape.num_elements() for member in members])
    return [
        tf.ensure_shape(tf.reshape(part, tf.shape(member)), member.shape)
        for part, member in zip(parts, members, strict=True)
    ]
