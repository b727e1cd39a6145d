"""The order of the examples: a pure function of the seed and the epoch.

tf.data's own shuffle counts how often it has been iterated, so a run that is resumed, or that
looks at one batch in advance, trains in another order. Here step `s` of epoch `e` is batch number
`e * steps + s` of an endless series of sweeps over the data, and the order of each sweep belongs
to (seed, number of the sweep) alone. Workers and replicas do not come in.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf


class Position:
    """Where the next pass over the data begins: an epoch, and a step in it."""

    def __init__(self) -> None:
        # One variable of two numbers: a pass never reads half of a change.
        with tf.device("CPU:0"):
            self._value = tf.Variable([0, 0], dtype=tf.int64, trainable=False, name="data_position")

    @property
    def epoch(self) -> int:
        return int(self._value.numpy()[0])

    @property
    def step(self) -> int:
        return int(self._value.numpy()[1])

    def set(self, epoch: int, step: int) -> None:
        self._value.assign([epoch, step])

    def dataset(self) -> tf.data.Dataset:
        """One element `(epoch, step)`, read anew when a pass begins, and not again during it."""

        @tf.autograph.experimental.do_not_convert
        def read(_: tf.Tensor) -> tuple[tf.Tensor, ...]:
            return tuple(tf.unstack(self._value))

        return tf.data.Dataset.from_tensors(0).map(read)

    def rest_of_epoch(self, steps: int, pieces: int = 1) -> tf.data.Dataset:
        """Numbers of the pieces to the end of the epoch, in an endless series of epochs.

        Args:
          steps: batches in an epoch.
          pieces: of a batch. Piece `i` of step `s` of epoch `e` has the number
            `(e * steps + s) * pieces + i`.
        """

        @tf.autograph.experimental.do_not_convert
        def numbers(epoch: tf.Tensor, step: tf.Tensor) -> tf.data.Dataset:
            return tf.data.Dataset.range(
                (epoch * steps + step) * pieces, (epoch + 1) * steps * pieces
            )

        return self.dataset().flat_map(numbers)


@dataclass(frozen=True)
class Order:
    """How examples become batches.

    Attributes:
      batch: examples in a batch.
      seed: of the order; not used without `shuffle`.
      shuffle: whether each sweep has an order of its own.
      steps: batches in an epoch; None for one sweep.
      remainder: what becomes of the last batch of a sweep: "exact", "drop" or "pad".
      shuffle_buffer: serialized examples of a stream that are shuffled at a time.
      open_files: files of a stream that are read in turn.
    """

    batch: int
    seed: int = 0
    shuffle: bool = True
    steps: int | None = None
    remainder: str = "exact"
    shuffle_buffer: int = 10_000
    open_files: int = 8

    def steps_per_sweep(self, rows: int) -> int:
        """Batches in one sweep over `rows` examples."""
        return rows // self.batch if self.remainder == "drop" else -(-rows // self.batch)


def shuffled(numbers: tf.Tensor, count: tf.Tensor | int, seed: int, sweep: tf.Tensor) -> tf.Tensor:
    """Where the permutation of (seed, sweep) puts some of the numbers below `count` (int64)."""
    return tf.random.experimental.index_shuffle(
        numbers,
        seed=tf.stack([tf.constant(seed, tf.int64), sweep]),
        max_index=tf.cast(count, tf.int64) - 1,
    )


def example_seeds(seed: int, epoch: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    """A seed for each example, for tf.random.stateless_* and tf.image.stateless_*.

    Args:
      seed: of the data.
      epoch: scalar int64.
      number: `(n,)` int64, the examples' numbers in the epoch.

    Returns:
      `(n, 2)` int32, the finaliser of SplitMix64 applied to all three.
    """
    mixed = _mix(tf.cast(number, tf.uint64) + _mix(tf.cast(epoch, tf.uint64) + _constant(seed)))
    low = tf.bitcast(tf.cast(mixed & _constant(0xFFFFFFFF), tf.uint32), tf.int32)
    high = tf.bitcast(tf.cast(tf.bitwise.right_shift(mixed, _constant(32)), tf.uint32), tf.int32)
    return tf.stack([low, high], axis=-1)


def _mix(value: tf.Tensor) -> tf.Tensor:
    value += _constant(0x9E3779B97F4A7C15)
    value = (value ^ tf.bitwise.right_shift(value, _constant(30))) * _constant(0xBF58476D1CE4E5B9)
    value = (value ^ tf.bitwise.right_shift(value, _constant(27))) * _constant(0x94D049BB133111EB)
    return value ^ tf.bitwise.right_shift(value, _constant(31))


def _constant(value: int) -> tf.Tensor:
    return tf.constant(value, tf.uint64)
