"""Models and data as a user of `tfdp.verify` has them. Imported by its child processes."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def arrays() -> tuple[np.ndarray, np.ndarray]:
    """13 rows: two batches of 6 and a last one of 1."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(13, 4)).astype("float32") * np.linspace(0.5, 2, 13)[:, None]
    return x.astype("float32"), rng.normal(size=(13, 1)).astype("float32")


def dataset() -> tf.data.Dataset:
    """The same in batches."""
    return tf.data.Dataset.from_tensor_slices(arrays()).batch(6)


def _compiled(*hidden: layers.Layer, optimizer: Any = "adam") -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), layers.Dense(5), *hidden, layers.Dense(1)])
    model.compile(optimizer, "mse", metrics=["mae"])
    return model


def plain() -> keras.Model:
    return _compiled()


def without_state() -> keras.Model:
    return _compiled(optimizer=keras.optimizers.SGD(0.05))


def dropout() -> keras.Model:
    return _compiled(layers.Dropout(0.4))


def batch_norm() -> keras.Model:
    return _compiled(layers.BatchNormalization())


def batch_norm_synchronized() -> keras.Model:
    return _compiled(layers.BatchNormalization(synchronized=True))


def noise_without_switch() -> keras.Model:
    return _compiled(OwnNoise())


def refused() -> keras.Model:
    model = plain()
    model.compile("sgd", "mse", jit_compile=True)
    return model


def fails() -> keras.Model:
    raise ZeroDivisionError("the user's own mistake")


def never_ends() -> keras.Model:
    import time

    time.sleep(3600)
    return plain()


def makes_a_strategy() -> keras.Model:
    import tfdp

    tfdp.strategy("single")
    return plain()


class OwnNoise(layers.Layer):
    """Draws random numbers, and has no attribute that switches it off."""

    def __init__(self) -> None:
        super().__init__()
        self.seeds = keras.random.SeedGenerator(4)

    def call(self, x: Any) -> Any:
        return x + keras.random.normal(keras.ops.shape(x), stddev=0.1, seed=self.seeds)


class TimesReplica(layers.Layer):
    """A fault: what it computes depends on which replica it is."""

    def call(self, x: Any) -> Any:
        context = tf.distribute.get_replica_context()
        replica = 0 if context is None else context.replica_id_in_sync_group
        return x * (1 + tf.cast(replica, x.dtype))


class ForgetsRows(layers.Layer):
    """A fault in a statistic only: it counts batches by their first row."""

    def build(self, shape: Any) -> None:
        self.seen = self.add_weight(shape=(), initializer="zeros", trainable=False, name="seen")

    def call(self, x: Any) -> Any:
        self.seen.assign_add(tf.reduce_sum(x))
        return x


def depends_on_the_replica() -> keras.Model:
    return _compiled(TimesReplica())


def depends_on_the_replica_with_dropout() -> keras.Model:
    return _compiled(layers.Dropout(0.4), TimesReplica())


def statistic_of_a_part() -> keras.Model:
    return _compiled(ForgetsRows())
