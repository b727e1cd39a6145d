"""Layers with gradients or statistics of their own kind."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from keras.optimizers import SGD, Adam

from tests.parity.cases.base import (
    EVERYWHERE,
    IN_TWO_WORKERS,
    UP_TO_EIGHT,
    Program,
    Result,
    Scope,
    add,
    case,
    compiled,
    crossentropy,
    rows,
    sgd,
    trained,
)


def _with_embedding(make: Callable[[], keras.optimizers.Optimizer]) -> Program:
    """Sparse gradients."""

    def model() -> keras.Model:
        return keras.Sequential(
            [
                layers.Input((3,), dtype="int64"),
                layers.Embedding(20, 4),
                layers.Flatten(),
                layers.Dense(1),
            ]
        )

    def run(scope: Scope) -> Result:
        rng = np.random.default_rng(4)
        ids = rng.integers(0, 20, size=(29, 3))
        y = rng.normal(size=(29, 1))
        net = compiled(scope, model, lambda: {"optimizer": make(), "loss": "mse"})
        return trained(net, {"x": ids, "y": y, "batch_size": 12}, predict=ids)

    return run


add("layer_embedding_sgd", _with_embedding(lambda: SGD(0.1)), **(EVERYWHERE | UP_TO_EIGHT))
add("layer_embedding_adam", _with_embedding(lambda: Adam(0.05)), **IN_TWO_WORKERS)
add("layer_embedding_clip", _with_embedding(lambda: SGD(0.1, global_clipnorm=0.1)))
add(
    "layer_embedding_accumulation",
    _with_embedding(lambda: SGD(0.1, gradient_accumulation_steps=2)),
)


@case(**(EVERYWHERE | UP_TO_EIGHT))
def layer_batch_norm_synchronized(scope: Scope) -> Result:
    """Without a bias before it: its gradient is zero, so rounding would be all that it learns."""
    x, y = rows(27)

    def model() -> keras.Model:
        return keras.Sequential(
            [
                layers.Input((6,)),
                layers.Dense(8, use_bias=False),
                layers.BatchNormalization(synchronized=True),
                layers.Activation("relu"),
                layers.Dense(1),
            ]
        )

    net = compiled(scope, model, sgd())
    return trained(net, {"x": x, "y": y, "batch_size": 13}, predict=x)


@case(**IN_TWO_WORKERS)
def layer_masked_sequences(scope: Scope) -> Result:
    """The loss is divided by the time steps that are not masked."""
    rng = np.random.default_rng(2)
    tokens = rng.integers(1, 12, size=(29, 7))
    for row, length in enumerate(rng.integers(1, 8, size=29)):
        tokens[row, length:] = 0

    def model() -> keras.Model:
        return keras.Sequential(
            [
                layers.Embedding(12, 5, mask_zero=True),
                layers.GRU(6, return_sequences=True),
                layers.Dense(12),
            ]
        )

    net = compiled(
        scope,
        model,
        lambda: {"optimizer": SGD(0.1), "loss": crossentropy(), "weighted_metrics": ["accuracy"]},
    )
    examples = {"x": tokens, "y": tokens, "batch_size": 12}
    return trained(net, examples, evaluate=examples, predict=tokens)


@case(float32=True)
def layer_convolution(scope: Scope) -> Result:
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(21, 8, 8, 1)), rng.integers(0, 3, size=21)

    def model() -> keras.Model:
        return keras.Sequential(
            [
                layers.Input((8, 8, 1)),
                layers.Conv2D(4, 3, activation="relu"),
                layers.GlobalAveragePooling2D(),
                layers.LayerNormalization(),
                layers.Dense(3),
            ]
        )

    net = compiled(
        scope,
        model,
        lambda: {"optimizer": Adam(0.02), "loss": crossentropy(), "metrics": ["accuracy"]},
    )
    return trained(net, {"x": x, "y": y, "batch_size": 8}, predict=x)


@case()
def layer_attention(scope: Scope) -> Result:
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(19, 5, 6)), rng.normal(size=(19, 1))

    def model() -> keras.Model:
        tokens = keras.Input((5, 6))
        attended = layers.MultiHeadAttention(2, 3)(tokens, tokens)
        pooled = layers.GlobalAveragePooling1D()(layers.Add()([tokens, attended]))
        return keras.Model(tokens, layers.Dense(1)(layers.LayerNormalization()(pooled)))

    net = compiled(scope, model, sgd())
    return trained(net, {"x": x, "y": y, "batch_size": 8}, predict=x)


@case()
def layer_sparse_input(scope: Scope) -> Result:
    """TensorFlow merges this gradient's rows on one device; so the replicas' must be merged."""
    x, y = rows(29)
    x = np.where(np.abs(x) > 0.7, x, 0.0)

    def model() -> keras.Model:
        inputs = keras.Input((6,), sparse=True)
        return keras.Model(inputs, layers.Dense(1)(inputs))

    def sparse(values: tf.Tensor, targets: tf.Tensor) -> tuple[tf.SparseTensor, tf.Tensor]:
        return tf.sparse.from_dense(values), targets

    net = compiled(scope, model, lambda: {"optimizer": Adam(0.05), "loss": "mse"})
    return trained(net, {"x": tf.data.Dataset.from_tensor_slices((x, y)).batch(12).map(sparse)})
