"""Ways to run a step: several at once, eagerly, in lower precision, one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from keras.optimizers import SGD

from tests.parity.cases.base import (
    IN_TWO_WORKERS,
    Program,
    Result,
    Scope,
    add,
    case,
    compiled,
    mlp,
    rows,
    sgd,
    simple,
    state,
    trained,
)


def _steps_per_execution() -> dict[str, Any]:
    return {"optimizer": SGD(0.05), "loss": "mse", "metrics": ["mae"], "steps_per_execution": 3}


def _eagerly() -> dict[str, Any]:
    optimizer = SGD(0.05, clipnorm=0.5, gradient_accumulation_steps=2)
    return {"optimizer": optimizer, "loss": "mse", "metrics": ["mae"], "run_eagerly": True}


add("run_steps_per_execution", simple(53, 8, _steps_per_execution), **IN_TWO_WORKERS)
add("run_eagerly", simple(13, 6, _eagerly))


def _low_precision(policy: str) -> Callable[[], keras.Model]:
    return lambda: keras.Sequential(
        [
            layers.Input((6,)),
            layers.Dense(8, activation="tanh", dtype=policy),
            layers.Dense(1, dtype=policy),
            layers.Activation("linear", dtype="float32"),
        ]
    )


# A gradient is a sum over rows in the low precision, rounded once on each replica: the tolerance
# is a few units of rounding (2**-8 and 2**-11) of a single sum.
add("run_bfloat16", simple(29, 12, sgd(), model=_low_precision("mixed_bfloat16")), tolerance=2e-2)
add(
    "run_float16",
    simple(
        29,
        12,
        lambda: {
            "optimizer": keras.optimizers.LossScaleOptimizer(SGD(0.05), initial_scale=1024.0),
            "loss": "mse",
        },
        model=_low_precision("mixed_float16"),
    ),
    tolerance=3e-3,
)


class Own(keras.Model):
    """Around a network, so that what is overridden stands alone below."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp()

    def call(self, x: Any) -> Any:
        return self.net(x)


class OwnStep(Own):
    """A `train_step` as in Keras' guides: no loss scaling, no `Loss` object."""

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = keras.ops.mean(keras.ops.square(self(x, training=True) - y))
            loss += 0.01 * keras.ops.sum(keras.ops.square(self.net.layers[0].kernel))
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables, strict=True))
        return {"own_loss": loss}


class OwnLoss(Own):
    """A `compute_loss` that mixes Keras' losses with a mean over the rows."""

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        loss = super().compute_loss(x, y, y_pred, sample_weight)
        return loss + 0.1 * keras.ops.mean(keras.ops.square(y_pred))


def _own(model: Callable[[], keras.Model]) -> Program:
    def run(scope: Scope) -> Result:
        x, y = rows(29)
        net = compiled(scope, model, sgd(global_clipnorm=0.5))
        return trained(net, {"x": x, "y": y, "batch_size": 12})

    return run


add("run_own_train_step", _own(OwnStep), **IN_TWO_WORKERS)
add("run_own_compute_loss", _own(OwnLoss))


class Adversaries(keras.Model):
    """Two networks with an optimizer each, trained against one another in one step."""

    def __init__(self) -> None:
        super().__init__()
        self.maker = keras.Sequential([layers.Input((6,)), layers.Dense(6)])
        self.judge = mlp()
        self.judge_loss = keras.losses.BinaryCrossentropy(from_logits=True)
        self.mean_loss = keras.metrics.Mean(name="judge_loss")

    def compile(self, maker_optimizer: Any, judge_optimizer: Any) -> None:
        super().compile(optimizer=maker_optimizer)
        self.judge_optimizer = judge_optimizer

    def call(self, x: Any) -> Any:
        return self.judge(self.maker(x))

    def train_step(self, data: Any) -> Any:
        x, real = data
        with tf.GradientTape() as tape:
            verdicts = self.judge(tf.concat([self.maker(x), real], axis=0))
            rows = tf.shape(x)[0]
            truth = tf.concat([tf.zeros((rows, 1)), tf.ones((rows, 1))], axis=0)
            loss = self.judge_optimizer.scale_loss(self.judge_loss(truth, verdicts))
        self._update(self.judge_optimizer, tape, loss, self.judge.trainable_variables)
        with tf.GradientTape() as tape:
            made = self.judge_loss(tf.ones((rows, 1)), self.judge(self.maker(x)))
            maker_loss = self.optimizer.scale_loss(made)
        self._update(self.optimizer, tape, maker_loss, self.maker.trainable_variables)
        self.mean_loss.update_state(loss, sample_weight=rows)
        return {"judge_loss": self.mean_loss.result()}

    @staticmethod
    def _update(optimizer: Any, tape: Any, loss: Any, variables: Any) -> None:
        optimizer.apply(tape.gradient(loss, variables), variables)


@case(**IN_TWO_WORKERS)
def run_two_optimizers(scope: Scope) -> Result:
    x, real = rows(29)[0], rows(29, seed=4)[0]
    with scope:
        net = Adversaries()
        net.compile(SGD(0.05, momentum=0.5), SGD(0.1, clipnorm=0.2))
        # Keras builds an optimizer that is not built for all weights under a strategy, and on one
        # device for those that it updates first.
        net.optimizer.build(net.maker.trainable_variables)
        net.judge_optimizer.build(net.judge.trainable_variables)
    history = net.fit(x, real, batch_size=12, epochs=2, shuffle=False, verbose=0)
    judge = {
        f"judge/{i}": np.array(variable.numpy())
        for i, variable in enumerate(net.judge_optimizer.variables)
    }
    return {**state(net), **judge, "judge_loss": np.asarray(history.history["judge_loss"])}


class OwnMetrics(keras.Model):
    """Feeds single numbers to metrics, and returns a value for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp()
        self.mean = keras.metrics.Mean(name="mean")
        self.sum = keras.metrics.Sum(name="sum")

    def call(self, x: Any) -> Any:
        return self.net(x)

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            each = keras.ops.mean(keras.ops.square(self(x, training=True) - y), axis=-1)
            loss = keras.ops.mean(each)
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables, strict=True))
        self.mean.update_state(loss)
        self.sum.update_state(loss)
        return {"mean": self.mean.result(), "sum": self.sum.result(), "each": each}


@case(counts=(2, 3))
def run_own_metrics(scope: Scope) -> Result:
    x, y = rows(29)
    net = compiled(scope, OwnMetrics, sgd())
    seen: list[Any] = []
    watch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: seen.append(np.array(logs["each"]))
    )
    net.fit(x, y, batch_size=12, verbose=0, shuffle=False, callbacks=[watch])
    totals = {name: np.array(getattr(net, name).result()) for name in ("mean", "sum")}
    return {**state(net), **totals, "each": np.concatenate(seen)}


@case(**IN_TWO_WORKERS)
def run_callbacks_decide(scope: Scope) -> Result:
    """EarlyStopping and ReduceLROnPlateau act on the loss, so they must see the same one."""
    x, y = rows(29)
    stop = keras.callbacks.EarlyStopping("loss", patience=1, min_delta=0.5)
    slow = keras.callbacks.ReduceLROnPlateau("loss", patience=0, min_delta=1.0, factor=0.5)
    net = compiled(scope, mlp, sgd(0.3))
    fit = {"x": x, "y": y, "batch_size": 12, "epochs": 8}
    return trained(net, {**fit, "callbacks": [stop, slow]})
