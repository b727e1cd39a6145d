"""Global batches from arrays, in an order that depends on nothing but the seed and the epoch.

tf.data's own shuffle counts how often it has been iterated, so a run that is resumed, or that
looks at one batch in advance, trains in another order. Here the order of an epoch is a pure
function: step `s` of epoch `e` is batch number `e * steps + s` of an endless series of sweeps over
the data, and each sweep is one permutation that belongs to (seed, number of the sweep).
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfdp.data.arrays import Arrays

_PREFETCHED_BATCHES = 2


class EpochBatches:
    """The global batches of one epoch after the other.

    Args:
      arrays: the examples.
      global_batch: rows in a batch, all replicas together; the last batch of a sweep may have
        fewer.
      seed: of the order; not used without `shuffle`.
      shuffle: whether each sweep has an order of its own.
      steps: batches in an epoch; None for one sweep.

    Attributes:
      dataset: a tf.data.Dataset of `(x, y)` or `(x, y, sample_weight)`. Iterating it gives the
        batches of the epoch that was set last. uint8 images (rank 3 or 4) come as floats in
        [0, 1] with a channel axis, floats as Keras' float type, everything else as it is.
      steps: batches in an epoch.
    """

    def __init__(
        self,
        arrays: Arrays,
        *,
        global_batch: int,
        seed: int = 0,
        shuffle: bool = True,
        steps: int | None = None,
    ) -> None:
        self.steps_per_sweep = -(-arrays.rows // global_batch)
        self.steps = self.steps_per_sweep if steps is None else steps
        self._rows = arrays.rows
        self._global_batch = global_batch
        self._seed = seed
        self._shuffle = shuffle
        # tf.data runs on the host: there, arrays and counter cost no copies.
        with tf.device("CPU:0"):
            self._columns = tf.nest.map_structure(tf.constant, _columns(arrays))
            self._epoch = tf.Variable(0, dtype=tf.int64, trainable=False, name="data_epoch")
        self.dataset: tf.data.Dataset = self._build()

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch, from 0, whose batches the next iteration gives."""
        self._epoch.assign(epoch)

    def rows_in_step(self, step: int) -> int:
        """Rows of step number `step`, from 0, of the epoch that was set last."""
        slot = (int(self._epoch.numpy()) * self.steps + step) % self.steps_per_sweep
        return min(self._global_batch, self._rows - slot * self._global_batch)

    def _build(self) -> tf.data.Dataset:
        # The counter is read once per iteration, so changing it never tears an epoch apart.
        epoch = tf.data.Dataset.from_tensors(0).map(lambda _: self._epoch.read_value())
        numbers = epoch.flat_map(
            lambda e: tf.data.Dataset.range(e * self.steps, (e + 1) * self.steps)
        )
        dataset = numbers.map(self._batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        # Keras asks for the cardinality, which flat_map hides.
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(self.steps))
        # Without tuning, parallel calls are as many as there are cores. The thread that tunes can
        # miss that an epoch has ended, and the epoch then waits for its next round, seconds later.
        options = tf.data.Options()
        options.autotune.enabled = False
        return dataset.prefetch(_PREFETCHED_BATCHES).with_options(options)

    def _batch(self, number: tf.Tensor) -> Any:
        rows = self._row_numbers(number)
        batch = tf.nest.map_structure(lambda column: tf.gather(column, rows), self._columns)
        x, *targets = batch
        return (tf.nest.map_structure(_as_input, x), *tf.nest.map_structure(_as_target, targets))

    def _row_numbers(self, number: tf.Tensor) -> tf.Tensor:
        sweep = number // self.steps_per_sweep
        first = (number % self.steps_per_sweep) * self._global_batch
        last = tf.minimum(first + self._global_batch, self._rows)
        rows = tf.range(first, last)
        if not self._shuffle:
            return rows
        return tf.random.experimental.index_shuffle(
            rows,
            seed=tf.stack([tf.constant(self._seed, tf.int64), sweep]),
            max_index=tf.constant(self._rows - 1, tf.int64),
        )


def _columns(arrays: Arrays) -> tuple[Any, ...]:
    columns = (arrays.x, arrays.y)
    return columns if arrays.sample_weight is None else (*columns, arrays.sample_weight)


def _as_input(batch: tf.Tensor) -> tf.Tensor:
    """Scales uint8 images, and gives grey ones their channel axis."""
    if batch.dtype != tf.uint8 or batch.shape.rank not in (3, 4):
        return _as_target(batch)
    scaled = tf.cast(batch, keras.config.floatx()) / 255
    return scaled[..., tf.newaxis] if batch.shape.rank == 3 else scaled


def _as_target(batch: tf.Tensor) -> tf.Tensor:
    return tf.cast(batch, keras.config.floatx()) if batch.dtype.is_floating else batch
