"""Ways to hand data over, and models with several inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from keras.optimizers import SGD, Adam

from tests.parity.cases.base import (
    EVERYWHERE,
    IN_TWO_WORKERS,
    Result,
    Scope,
    add,
    case,
    classes,
    compiled,
    crossentropy,
    mlp,
    rows,
    sgd,
    simple,
    state,
    trained,
    weights,
)


def two_headed() -> keras.Model:
    """Inputs a, b; outputs value (a number) and kind (one of three classes)."""
    a, b = keras.Input((6,), name="a"), keras.Input((4,), name="b")
    hidden = layers.Dense(8, activation="tanh")(layers.Concatenate()([a, b]))
    value, kind = layers.Dense(1, name="value"), layers.Dense(3, name="kind")
    return keras.Model({"a": a, "b": b}, {"value": value(hidden), "kind": kind(hidden)})


def _two_losses() -> dict[str, Any]:
    return {
        "optimizer": Adam(0.02),
        "loss": {"value": "mse", "kind": crossentropy()},
        "loss_weights": {"value": 0.3, "kind": 2.0},
        "metrics": {"kind": ["accuracy"], "value": ["mae"]},
        "weighted_metrics": {"kind": ["accuracy"], "value": ["mae"]},
    }


def _two_headed_data() -> dict[str, Any]:
    a, value = rows(29)
    b, kind = classes(29, features=4, seed=3)
    return {"x": {"a": a, "b": b}, "y": {"value": value, "kind": kind}, "batch_size": 12}


@case(**EVERYWHERE)
def io_dicts_and_loss_weights(scope: Scope) -> Result:
    """The logged loss of each output too, on a last batch of 5."""
    data = _two_headed_data()
    net = compiled(scope, two_headed, _two_losses)
    return trained(net, data, evaluate=data, predict=data["x"])


@case()
def io_sample_weight_of_each_output(scope: Scope) -> Result:
    weight = {"value": weights(29), "kind": weights(29)[::-1].copy()}
    data = {**_two_headed_data(), "sample_weight": weight}
    net = compiled(scope, two_headed, _two_losses)
    return trained(net, data, evaluate=data)


class Subclassed(keras.Model):
    """Has no variables before it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = layers.Dense(8, activation="relu")
        self.out = layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.out(self.hidden(x))


def _unbuilt() -> keras.Model:
    return keras.Sequential([layers.Dense(4), layers.Dense(1)])


add("io_subclassed_unbuilt", simple(29, 12, sgd(), model=Subclassed), **IN_TWO_WORKERS)
add("io_sequential_unbuilt", simple(29, 12, sgd(), model=_unbuilt))
add("io_validation_split", simple(31, 8, sgd(), fit={"validation_split": 0.3}))


@case(**IN_TWO_WORKERS)
def io_tf_data(scope: Scope) -> Result:
    x, y = rows(29)
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(64, seed=3).batch(12)
    net = compiled(scope, mlp, sgd())
    fit = {"x": data, "validation_data": data.take(2)}
    return trained(net, fit, evaluate={"x": data}, predict=x)


@case()
def io_tf_data_infinite(scope: Scope) -> Result:
    data = tf.data.Dataset.from_tensor_slices(rows(29)).repeat().batch(13)
    return trained(compiled(scope, mlp, sgd()), {"x": data, "steps_per_epoch": 3})


def _adam_on(data: tf.data.Dataset, scope: Scope) -> Result:
    net = compiled(scope, mlp, lambda: {"optimizer": Adam(0.05), "loss": "mse"})
    return trained(net, {"x": data}, evaluate={"x": data})


@case()
def io_tf_data_of_known_length(scope: Scope) -> Result:
    return _adam_on(tf.data.Dataset.from_tensor_slices(rows(29)).batch(12), scope)


@case(reference="io_tf_data_of_known_length", **IN_TWO_WORKERS)
def io_tf_data_of_unknown_length(scope: Scope) -> Result:
    """The end of the data is found by reaching it: no step may be half done there.

    Keras on one device does half a step there (the iteration is counted and Adam's momentum
    applied, without data), so the reference is the same data with a known length.
    """
    data = tf.data.Dataset.from_tensor_slices(rows(29)).filter(lambda a, b: True).batch(12)
    return _adam_on(data, scope)


class Batches(keras.utils.PyDataset):
    """29 rows in batches of 12."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.x, self.y = rows(29)

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        part = slice(12 * index, 12 * (index + 1))
        return self.x[part], self.y[part]


@case(**IN_TWO_WORKERS)
def io_py_dataset(scope: Scope) -> Result:
    net = compiled(scope, mlp, sgd())
    return trained(net, {"x": Batches()}, evaluate={"x": Batches()}, predict=Batches().x)


@case()
def io_py_dataset_with_threads(scope: Scope) -> Result:
    net = compiled(scope, mlp, sgd())
    batches = Batches(workers=2, max_queue_size=4)
    return trained(net, {"x": batches, "validation_data": Batches(workers=2)})


@case(**IN_TWO_WORKERS)
def io_generator(scope: Scope) -> Result:
    x, y = rows(60)

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, 60, 10):
            yield x[start : start + 10], y[start : start + 10]

    return trained(compiled(scope, mlp, sgd()), {"x": batches(), "steps_per_epoch": 3})


@case(**EVERYWHERE)
def io_on_batch(scope: Scope) -> Result:
    x, y = rows(13)
    net = compiled(scope, mlp, lambda: {"optimizer": SGD(0.05), "loss": "mse", "metrics": ["mae"]})
    logs = [
        net.train_on_batch(x, y),
        net.train_on_batch(x[:1], y[:1]),
        net.train_on_batch(x, y, sample_weight=weights(13)),
        net.test_on_batch(x, y),
    ]
    predictions = net.predict_on_batch(x)
    return {**state(net), "logs": np.asarray(logs, dtype="float64"), "predictions": predictions}


@case()
def io_validation_data_uneven(scope: Scope) -> Result:
    x, y = rows(24)
    validation = (*rows(5, seed=9), weights(5))
    net = compiled(scope, mlp, lambda: {"optimizer": SGD(0.05), "loss": "mse", "metrics": ["mae"]})
    fit = {"x": x, "y": y, "batch_size": 8}
    return trained(net, {**fit, "validation_data": validation, "validation_batch_size": 4})


def _sequences() -> tf.RaggedTensor:
    """29 rows of 1 to 7 tokens."""
    rng = np.random.default_rng(2)
    lengths = rng.integers(1, 8, size=29)
    return tf.RaggedTensor.from_row_lengths(rng.integers(1, 12, size=lengths.sum()), lengths)


class BagOfTokens(keras.Model):
    """Mean of the embedded tokens of a padded or ragged row."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = layers.Embedding(12, 5)
        self.out = layers.Dense(1)

    def call(self, tokens: Any) -> Any:
        if isinstance(tokens, tf.RaggedTensor):
            tokens = tokens.to_tensor()
        there = keras.ops.cast(tokens > 0, self.compute_dtype)[..., None]
        total = keras.ops.sum(self.embed(tokens) * there, axis=1)
        return self.out(total / keras.ops.maximum(keras.ops.sum(there, axis=1), 1))


@case(**IN_TWO_WORKERS)
def io_padded_batches(scope: Scope) -> Result:
    """Sequences that are padded to the longest of their batch."""
    tokens, (_, y) = _sequences(), rows(29)
    data = tf.data.Dataset.from_tensor_slices((tokens, y)).map(lambda t, y: (tf.identity(t), y))
    data = data.padded_batch(12, padded_shapes=([None], [1]))
    net = compiled(scope, BagOfTokens, sgd(0.5))
    return trained(net, {"x": data}, evaluate={"x": data}, predict=data)


@case(**IN_TWO_WORKERS)
def io_ragged_batches(scope: Scope) -> Result:
    """Sequences that arrive as ragged tensors."""
    tokens, (_, y) = _sequences(), rows(29)
    data = tf.data.Dataset.from_tensor_slices((tokens, y)).batch(12)
    net = compiled(scope, BagOfTokens, sgd(0.5))
    return trained(net, {"x": data}, evaluate={"x": data}, predict=data)
