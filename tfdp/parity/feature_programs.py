"""One small program for each feature of Keras, for ``tfdp features``.

A program trains in a given scope and returns what must be equal to one device. Rows grow along the
batch and the last batch of an epoch is smaller, so that replicas see different things.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, losses, optimizers

from tfdp.parity.compare import TOLERANCES

Program = Callable[[contextlib.AbstractContextManager[Any]], dict[str, np.ndarray]]


@dataclass(frozen=True)
class Feature:
    """A row of the table.

    Attributes:
      group: the heading that it stands under.
      name: of the row.
      program: what runs; every run in a scope of its own.
      tolerance: of a feature that computes in low precision; None is that of float64.
      by_definition: why it must differ, if it must; then it has to stay finite.
    """

    group: str
    name: str
    program: Program
    tolerance: float | None = None
    by_definition: str | None = None


ROWS, BATCH = 24, 8


def _data(rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    x = np.linspace(0.5, 2.0, rows)[:, None] * random.normal(size=(rows, 4))
    return x, x.sum(axis=1, keepdims=True) ** 2


def _model(*before: layers.Layer, outputs: int = 1) -> keras.Model:
    return keras.Sequential(
        [keras.Input((4,)), layers.Dense(6, "tanh"), *before, layers.Dense(outputs)]
    )


def _results(model: keras.Model, history: Any = None) -> dict[str, np.ndarray]:
    found = {f"weight {i}": np.array(v.numpy()) for i, v in enumerate(model.trainable_variables)}
    for i, variable in enumerate(model.optimizer.variables):
        found[f"optimizer variable {i}"] = np.array(variable.numpy())
    for name, values in ({} if history is None else history.history).items():
        found[f"logged {name}"] = np.asarray(values)
    return found


def _fit(
    optimizer: Callable[[], Any] = lambda: optimizers.SGD(0.05),
    loss: Callable[[], Any] = lambda: "mse",
    *,
    rows: int = ROWS,
    batch: int = BATCH,
    model: Callable[[], keras.Model] = _model,
    compile_more: Callable[[], dict[str, Any]] = dict,
    **fit: Any,
) -> Program:
    """Two epochs on `rows` rows in batches of `batch`."""

    def program(scope: contextlib.AbstractContextManager[Any]) -> dict[str, np.ndarray]:
        x, y = _data(rows)
        with scope:
            net = model()
            net.compile(optimizer(), loss(), **compile_more())
        history = net.fit(x, y, batch_size=batch, epochs=2, shuffle=False, verbose=0, **fit)
        return _results(net, history)

    return program


def _calls(use: Callable[[keras.Model, np.ndarray, np.ndarray], Any]) -> Program:
    """A compiled model and data for another method than `fit`."""

    def program(scope: contextlib.AbstractContextManager[Any]) -> dict[str, np.ndarray]:
        x, y = _data()
        with scope:
            net = _model()
            net.compile(optimizers.SGD(0.05), "mse", metrics=["mae"])
        returned = keras.tree.flatten(use(net, x, y))
        outputs = {f"output {i}": np.asarray(value) for i, value in enumerate(returned)}
        return {**_results(net), **outputs}

    return program


def _embedding() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Lambda(lambda x: keras.ops.cast(keras.ops.abs(x) * 3, "int64")),
            layers.Embedding(40, 3),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )


def _two_outputs(scope: contextlib.AbstractContextManager[Any]) -> dict[str, np.ndarray]:
    x, y = _data()
    with scope:
        inputs = keras.Input((4,))
        near, far = layers.Dense(1, name="near"), layers.Dense(1, name="far")
        net = keras.Model(inputs, {"near": near(inputs), "far": far(inputs)})
        net.compile(optimizers.SGD(0.02), {"near": "mae", "far": "mse"}, {"near": 1, "far": 0.1})
    targets = {"near": y, "far": -y}
    return _results(net, net.fit(x, targets, batch_size=BATCH, epochs=2, verbose=0, shuffle=False))


def _streams(scope: contextlib.AbstractContextManager[Any]) -> dict[str, np.ndarray]:
    """Random layers of two replicas must not draw the same numbers."""
    with scope:
        generator = keras.random.SeedGenerator(3)
        strategy = tf.distribute.get_strategy()

    @tf.function
    def draw() -> Any:
        return strategy.run(lambda: keras.random.uniform((8,), seed=generator))

    drawn = [np.asarray(part) for part in strategy.experimental_local_results(draw())]
    alike = len(drawn) - len({part.tobytes() for part in drawn})
    return {"the number of replicas that draw what another draws": np.asarray(alike)}


def _of_pairs(y_true: Any, y_pred: Any) -> Any:
    """One number for a batch that no mean of parts gives."""
    return keras.ops.sqrt(keras.ops.mean(keras.ops.square(y_true - y_pred)))


class OwnStep(keras.Model):
    """A `train_step` of one's own, as in Keras' guides."""

    def __init__(self) -> None:
        super().__init__()
        self.net = _model()

    def call(self, x: Any) -> Any:
        return self.net(x)

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = keras.ops.mean(keras.ops.square(self(x, training=True) - y))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}


def _low_precision(policy: str) -> Callable[[], keras.Model]:
    return lambda: keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(6, "tanh", dtype=policy),
            layers.Dense(1, dtype=policy),
            layers.Activation("linear", dtype="float32"),
        ]
    )


def _mse(reduction: str) -> Callable[[], losses.Loss]:
    return lambda: losses.MeanSquaredError(reduction=reduction)


def _sgd(**arguments: Any) -> Callable[[], optimizers.Optimizer]:
    return lambda: optimizers.SGD(0.05, **arguments)


def _batch_norm(synchronized: bool) -> Callable[[], keras.Model]:
    return lambda: _model(layers.BatchNormalization(synchronized=synchronized))


_WEIGHTS = np.random.default_rng(1).uniform(0.0, 3.0, ROWS)
_OWN_ROWS = "normalises with the statistics of a replica's own rows"

FEATURES = (
    Feature("Batches", "batch divisible by the replicas", _fit()),
    Feature("Batches", "last batch not divisible", _fit(rows=21)),
    Feature("Batches", "last batch of 1", _fit(rows=17)),
    Feature("Batches", "first batch not divisible", _fit(batch=7)),
    Feature("Optimizers", "Adam with weight decay", _fit(lambda: optimizers.AdamW(0.02))),
    Feature("Optimizers", "Muon", _fit(lambda: optimizers.Muon(0.02))),
    Feature("Optimizers", "`clipnorm`", _fit(_sgd(clipnorm=0.1))),
    Feature("Optimizers", "`clipvalue`", _fit(_sgd(clipvalue=0.05))),
    Feature("Optimizers", "`global_clipnorm`", _fit(_sgd(global_clipnorm=0.1))),
    Feature(
        "Optimizers",
        "`gradient_accumulation_steps`",
        _fit(_sgd(gradient_accumulation_steps=2)),
    ),
    Feature(
        "Optimizers",
        "`use_ema`, `ema_overwrite_frequency`",
        _fit(
            _sgd(use_ema=True, ema_overwrite_frequency=2),
        ),
    ),
    Feature(
        "Optimizers",
        "`LossScaleOptimizer`",
        _fit(
            lambda: optimizers.LossScaleOptimizer(optimizers.SGD(0.05)),
        ),
    ),
    Feature("Losses", '`reduction="sum"`', _fit(_sgd(), _mse("sum"))),
    Feature(
        "Losses",
        '`reduction="mean_with_sample_weight"`',
        _fit(_sgd(), _mse("mean_with_sample_weight"), sample_weight=_WEIGHTS),
    ),
    Feature("Losses", "`sample_weight`", _fit(sample_weight=_WEIGHTS)),
    Feature("Losses", "a loss that is one number for a batch", _fit(loss=lambda: _of_pairs)),
    Feature(
        "Losses",
        "regularisers",
        _fit(model=lambda: _model(layers.Dense(4, kernel_regularizer="l2"))),
    ),
    Feature("Losses", "several outputs, `loss_weights`", _two_outputs),
    Feature(
        "Metrics",
        "AUC, precision",
        _fit(
            compile_more=lambda: {
                "metrics": [keras.metrics.AUC(from_logits=True), keras.metrics.Precision()]
            },
            loss=lambda: "mae",
        ),
    ),
    Feature("Layers", "embedding (sparse gradients)", _fit(model=_embedding)),
    Feature("Layers", "`BatchNormalization(synchronized=True)`", _fit(model=_batch_norm(True))),
    Feature("Layers", "the same, last batch not divisible", _fit(rows=21, model=_batch_norm(True))),
    Feature(
        "Layers",
        "`BatchNormalization`, not synchronised",
        _fit(rows=17, model=_batch_norm(False)),
        by_definition=_OWN_ROWS,
    ),
    Feature(
        "Layers",
        "`Dropout`",
        _fit(model=lambda: _model(layers.Dropout(0.5))),
        by_definition="the mask of a row depends on its place in a replica's part",
    ),
    Feature("Layers", "a random stream for each replica", _streams),
    Feature("Steps", "`train_on_batch`", _calls(lambda net, x, y: net.train_on_batch(x, y))),
    Feature("Steps", "`predict_on_batch`", _calls(lambda net, x, y: net.predict_on_batch(x[:16]))),
    Feature(
        "Steps",
        "`evaluate`",
        _calls(lambda net, x, y: net.evaluate(x, y, batch_size=BATCH, verbose=0)),
    ),
    Feature(
        "Steps", "`predict`", _calls(lambda net, x, y: net.predict(x, batch_size=7, verbose=0))
    ),
    Feature("Steps", "own `train_step`", _fit(model=OwnStep)),
    Feature(
        "Steps",
        "`steps_per_execution`",
        _fit(rows=40, compile_more=lambda: {"steps_per_execution": 2}),
    ),
    Feature("Steps", "`run_eagerly`", _fit(compile_more=lambda: {"run_eagerly": True})),
    Feature(
        "Steps",
        "`jit_compile=True`",
        _fit(compile_more=lambda: {"jit_compile": True}),
    ),
    Feature(
        "Precision",
        "`mixed_bfloat16`",
        _fit(model=_low_precision("mixed_bfloat16")),
        tolerance=TOLERANCES["bfloat16"],
    ),
    Feature(
        "Precision",
        "`mixed_float16` with loss scaling",
        _fit(
            lambda: optimizers.LossScaleOptimizer(optimizers.SGD(0.05), initial_scale=1024.0),
            model=_low_precision("mixed_float16"),
        ),
        tolerance=TOLERANCES["float16"],
    ),
)
"""The table, in the order of its rows."""
