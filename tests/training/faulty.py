"""Models and rows for tests of numerical faults."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

BATCH = 8


class Root(keras.layers.Layer):
    """offset + sqrt(scale * x0): where x0 is 0 it is finite, and the gradient of scale NaN."""

    def build(self, input_shape: Any) -> None:
        self.offset = self.add_weight(shape=(1,), initializer="zeros", name="offset")
        self.scale = self.add_weight(shape=(1,), initializer="ones", name="scale")

    def call(self, x: Any) -> Any:
        return self.offset + keras.ops.sqrt(self.scale * x[:, :1])


def rows(count: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Inputs of which the first column is positive."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 4)).astype("float32")
    x[:, 0] = 1 + x[:, 0] ** 2
    return x, x.sum(axis=1, keepdims=True)


def rooted(strategy: Any, optimizer: Any = None, **compiled: Any) -> keras.Model:
    """A model with `Root`; `optimizer` makes one."""
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), Root(name="root")])
        model.compile(optimizer() if optimizer else keras.optimizers.SGD(0.01), "mse", **compiled)
    return model


def dense(
    strategy: Any, optimizer: Any = None, *, synchronized: bool = False, **compiled: Any
) -> keras.Model:
    """A model with every kind of state that replicas must have alike."""
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((4,)),
                keras.layers.Dense(8, activation="tanh", name="first"),
                keras.layers.BatchNormalization(synchronized=synchronized, name="norm"),
                keras.layers.Dropout(0.5, seed=5),
                keras.layers.Dense(1, name="last"),
            ]
        )
        model.compile(optimizer() if optimizer else keras.optimizers.Adam(0.01), "mse", **compiled)
    return model


def fit(
    model: keras.Model, data: tuple[np.ndarray, np.ndarray], *guards: Any, **given: Any
) -> None:
    """Two epochs in order, unless said otherwise."""
    given = {"batch_size": BATCH, "epochs": 2, "shuffle": False, "verbose": 0, **given}
    model.fit(*data, callbacks=list(guards), **given)


def flip_bit(model: keras.Model, variable: Any, replica: int, *, element: int, bit: int) -> None:
    """Changes one bit of one local replica's copy of a float32 variable."""
    copy = model.distribute_strategy.experimental_local_results(variable.value)[replica]
    content = copy.numpy()
    content.reshape(-1).view("uint32")[element] ^= np.uint32(1 << bit)
    copy.assign(content)
