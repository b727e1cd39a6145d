"""Ring all-reduce: 2 (N-1)/N of the bytes per replica, whatever N."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfdp.collectives.base import Reducer, Topology
from tfdp.collectives.local import LocalReduction


class Ring(Reducer):
    """Reduce-scatter and all-gather around a ring of all replicas (Patarasuk and Yuan, 2009).

    Between the devices of one process it is `RingReduction`; between workers it is TensorFlow's.
    On devices that share their memory no bytes have to move, and `reduce_to_one` is faster.
    """

    name = "ring"
    summary = "ring all-reduce, over the devices of one process or (TensorFlow's) between workers"

    def refusal(self, topology: Topology) -> str | None:
        del topology
        return None

    def local_reduction(self, topology: Topology) -> LocalReduction | None:
        return RingReduction() if topology.workers == 1 else None


class RingReduction(LocalReduction):
    """The ring in plain TensorFlow operations.

    A vector of n elements is cut into N segments of n/N, rounded up or down. In N - 1 steps each
    device hands one segment to its neighbour, which adds its own to it: then each device has one
    segment of the sum. In N - 1 more steps the segments go round. A device sends 2 (N-1) segments;
    all together send exactly 2 (N-1) n elements. Each segment is added up once, in one order, so
    all devices get the same bits.
    """

    def sum(self, vectors: Sequence[tf.Tensor], devices: Sequence[str]) -> list[tf.Tensor]:
        count = len(devices)
        segments = [
            _on(device, tf.split, vector, _segment_sizes(vector, count))
            for vector, device in zip(vectors, devices, strict=True)
        ]
        for step in range(count - 1):
            for sender in range(count):
                receiver, segment = (sender + 1) % count, (sender - step) % count
                segments[receiver][segment] = _on(
                    devices[receiver],
                    tf.add,
                    segments[sender][segment],
                    segments[receiver][segment],
                )
        for step in range(count - 1):
            for sender in range(count):
                receiver, segment = (sender + 1) % count, (sender + 1 - step) % count
                segments[receiver][segment] = _on(
                    devices[receiver], tf.identity, segments[sender][segment]
                )
        return [
            tf.ensure_shape(_on(device, tf.concat, parts, 0), vector.shape)
            for vector, device, parts in zip(vectors, devices, segments, strict=True)
        ]


def _segment_sizes(vector: tf.Tensor, count: int) -> list[int] | tf.Tensor:
    """Sizes of N segments of the vector that differ by one at most."""
    size = vector.shape.num_elements()
    if size is None:
        size = tf.size(vector)
        return size // count + tf.cast(tf.range(count) < size % count, tf.int32)
    return [size // count + (place < size % count) for place in range(count)]


def _on(device: str, operation: Callable[..., Any], *arguments: Any) -> Any:
    with tf.device(device):
        return operation(*arguments)
