"""A linear model whose gradients can be written down: y = x @ w, mean squared error."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

X = np.array(
    [[1.0, 2.0], [3.0, -1.0], [0.5, 4.0], [-2.0, 1.0], [6.0, 0.0], [1.0, -3.0], [2.0, 2.0]]
)
Y = np.array([[1.0], [0.0], [2.0], [-1.0], [3.0], [0.5], [1.5]])
W = np.array([[0.3], [-0.2]])


def model(strategy: Any, optimizer: Any, **compile_args: Any) -> keras.Model:
    """The model with weights `W`, compiled in the strategy's scope, in float64."""
    with strategy.scope():
        net = keras.Sequential(
            [keras.Input((2,)), keras.layers.Dense(1, use_bias=False, dtype="float64")]
        )
        loss = keras.losses.MeanSquaredError(dtype="float64")
        net.compile(optimizer(), **{"loss": loss, **compile_args})
    net.layers[0].set_weights([W])
    return net


def gradient(x: np.ndarray, y: np.ndarray, w: np.ndarray = W) -> np.ndarray:
    """Gradient of the mean squared error over the rows given."""
    return 2.0 * x.T @ (x @ w - y) / len(x)


def weights(net: keras.Model) -> np.ndarray:
    return np.asarray(net.layers[0].get_weights()[0])
