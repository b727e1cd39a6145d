"""The cases in which N replicas must equal one device.

A case builds its own model and data from fixed seeds, so that separate processes, with and
without a strategy, run exactly the same program. Nothing here knows about tfdp.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

Result = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Case:
    """One program.

    Attributes:
        run: trains in the given scope and returns what must be equal.
        tolerance: allowed difference relative to the size of the value; None is the suite's own.
        replicas: the replica counts for which the case is meant; None means all.
        multi_worker: whether it also runs with several workers.
        reference: the case whose result on one device is the right one, if not this case itself.
    """

    run: Callable[[contextlib.AbstractContextManager[Any]], Result]
    tolerance: float | None = None
    replicas: tuple[int, ...] | None = None
    multi_worker: bool = False
    reference: str | None = None


CASES: dict[str, Case] = {}


def case(
    *, tolerance: float | None = None, replicas: tuple[int, ...] | None = None,
    multi_worker: bool = False, reference: str | None = None,
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    def add(function: Callable[..., Result]) -> Callable[..., Result]:
        CASES[function.__name__] = Case(function, tolerance, replicas, multi_worker, reference)
        return function

    return add


def add(name: str, run: Callable[..., Result], **options: Any) -> None:
    CASES[name] = Case(run, **options)


def rows(n: int, features: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """`n` rows whose scale grows along the batch, so that replicas see different things."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, features)) * np.linspace(0.5, 2.0, n)[:, None]
    y = (x @ rng.normal(size=(features, 1)) + 0.1 * rng.normal(size=(n, 1))).astype(np.float64)
    return x, y


def classes(n: int, features: int = 6, count: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    x, _ = rows(n, features, seed)
    rng = np.random.default_rng(seed + 1)
    y = np.argmax(x @ rng.normal(size=(features, count)), axis=1)
    return x, y


def mlp(outputs: int = 1, hidden: int = 8, **dense: Any) -> keras.Model:
    return keras.Sequential(
        [layers.Input((6,)), layers.Dense(hidden, activation="tanh", **dense), layers.Dense(outputs)]
    )


def state(model: keras.Model) -> Result:
    """Weights and optimizer variables, in the order Keras keeps them in."""
    found: Result = {}
    for i, variable in enumerate(model.weights):
        if "seed" in variable.path:
            continue
        found[f"weight/{i}/{variable.path.rsplit('/')[-1]}"] = np.array(variable.numpy())
    if getattr(model, "optimizer", None) is not None:
        for i, variable in enumerate(model.optimizer.variables):
            found[f"optimizer/{i}/{variable.path.rsplit('_')[-1]}"] = np.array(variable.numpy())
    return found


def trained(
    model: keras.Model, fit: dict[str, Any], *, evaluate: Any = None, predict: Any = None
) -> Result:
    """Fits, evaluates and predicts; everything that came out."""
    history = model.fit(**{"epochs": 2, "verbose": 0, "shuffle": False, **fit})
    result = state(model)
    for name, values in history.history.items():
        result[f"history/{name}"] = np.asarray(values)
    if evaluate is not None:
        for name, value in model.evaluate(**{"verbose": 0, "return_dict": True, **evaluate}).items():
            result[f"evaluate/{name}"] = np.asarray(value)
    if predict is not None:
        for i, value in enumerate(keras.tree.flatten(model.predict(predict, batch_size=7, verbose=0))):
            result[f"predict/{i}"] = np.asarray(value)
    return result


def simple(
    n: int, batch: int, compile_args: dict[str, Any] | Callable[[], dict[str, Any]], *,
    model: Callable[[], keras.Model] = mlp, data: Callable[..., Any] = rows,
    fit: dict[str, Any] | None = None,
) -> Callable[..., Result]:
    """A regression or classification with the given compile arguments."""

    def run(scope: contextlib.AbstractContextManager[Any]) -> Result:
        x, y = data(n)
        with scope:
            net = model()
            net.compile(**(compile_args() if callable(compile_args) else compile_args))
        return trained(
            net, {"x": x, "y": y, "batch_size": batch, **(fit or {})},
            evaluate={"x": x, "y": y, "batch_size": batch}, predict=x,
        )

    return run


# --- sizes: what divides and what does not ------------------------------------------------------
SGD = {"optimizer": keras.optimizers.SGD, "loss": "mse"}


def sgd(rate: float = 0.05, **kwargs: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"optimizer": keras.optimizers.SGD(rate, **kwargs), "loss": "mse"}


def adam(**kwargs: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"optimizer": keras.optimizers.Adam(0.01, **kwargs), "loss": "mse"}


for _name, _n, _batch in (
    ("even", 48, 24), ("last_batch_of_1", 25, 24), ("last_batch_of_5", 29, 24),
    ("first_batch_uneven", 26, 13), ("fewer_rows_than_replicas", 5, 2), ("one_row", 1, 8),
):
    add(f"size_{_name}", simple(_n, _batch, adam(weight_decay=0.01)), multi_worker=True)

# --- optimizers ------------------------------------------------------------------------------
_OPTIMIZERS: dict[str, Callable[[], keras.optimizers.Optimizer]] = {
    "adadelta": lambda: keras.optimizers.Adadelta(0.5),
    "adafactor": lambda: keras.optimizers.Adafactor(0.05),
    "adagrad": lambda: keras.optimizers.Adagrad(0.05),
    "adamax": lambda: keras.optimizers.Adamax(0.02),
    "adamw": lambda: keras.optimizers.AdamW(0.02, weight_decay=0.05),
    "ftrl": lambda: keras.optimizers.Ftrl(0.05),
    "lamb": lambda: keras.optimizers.Lamb(0.02),
    "lion": lambda: keras.optimizers.Lion(0.01),
    "muon": lambda: keras.optimizers.Muon(0.02),
    "nadam": lambda: keras.optimizers.Nadam(0.02),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01),
    "momentum": lambda: keras.optimizers.SGD(0.02, momentum=0.9, nesterov=True),
    "schedule": lambda: keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, 6)),
    "clipnorm": lambda: keras.optimizers.SGD(0.05, clipnorm=0.3),
    "clipvalue": lambda: keras.optimizers.SGD(0.05, clipvalue=0.1),
    "global_clipnorm": lambda: keras.optimizers.Adam(0.05, global_clipnorm=0.3),
    "accumulation": lambda: keras.optimizers.Adam(0.05, gradient_accumulation_steps=2),
    "accumulation_unfinished": lambda: keras.optimizers.SGD(
        0.05, gradient_accumulation_steps=3, clipnorm=0.3, weight_decay=0.01
    ),
    "ema": lambda: keras.optimizers.Adam(0.05, use_ema=True, ema_momentum=0.8),
    "ema_overwrite": lambda: keras.optimizers.SGD(
        0.05, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=2
    ),
    "accumulation_ema": lambda: keras.optimizers.SGD(
        0.05, gradient_accumulation_steps=2, use_ema=True, ema_overwrite_frequency=2
    ),
    "loss_scale_factor": lambda: keras.optimizers.SGD(0.05, loss_scale_factor=128.0),
    "loss_scale": lambda: keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.05, clipnorm=1.0), initial_scale=64.0, dynamic_growth_steps=2
    ),
    "loss_scale_accumulation": lambda: keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.05, gradient_accumulation_steps=2), initial_scale=64.0
    ),
}
for _name, _make in _OPTIMIZERS.items():
    add(
        f"optimizer_{_name}",
        simple(29, 12, lambda make=_make: {"optimizer": make(), "loss": "mse"}),
        multi_worker=_name in ("clipnorm", "accumulation_unfinished", "ema_overwrite", "loss_scale"),
    )


@case(multi_worker=True)
def optimizer_loss_scale_overflow(scope: contextlib.AbstractContextManager[Any]) -> Result:
    """One row of one replica overflows: all must skip that step."""
    x, y = rows(30)
    x = x.astype("float32")
    y = y.astype("float32")
    x[7] = 3e38
    with scope:
        net = mlp()
        net.compile(
            keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.05), initial_scale=64.0), "mse"
        )
    result = trained(net, {"x": x, "y": y, "batch_size": 12})
    return {k: v for k, v in result.items() if not k.startswith("history")}


# --- losses ------------------------------------------------------------------------------------
def scalar_loss(y_true: Any, y_pred: Any) -> Any:
    return keras.ops.mean(keras.ops.square(y_pred - y_true)) ** 0.5


def per_sample_loss(y_true: Any, y_pred: Any) -> Any:
    return keras.ops.mean(keras.ops.abs(y_pred - y_true), axis=-1)


class Contrastive(keras.losses.Loss):
    """Depends on all pairs of rows: no mean of parts gives the whole."""

    def call(self, y_true: Any, y_pred: Any) -> Any:
        difference = y_pred - keras.ops.transpose(y_pred)
        wanted = y_true - keras.ops.transpose(y_true)
        return keras.ops.mean(keras.ops.square(difference - wanted))


def _weights(n: int) -> np.ndarray:
    return np.random.default_rng(5).uniform(0.0, 3.0, size=n)


def _loss_case(loss: Callable[[], Any], **fit: Any) -> Callable[..., Result]:
    return simple(
        29, 12, lambda: {"optimizer": keras.optimizers.SGD(0.02), "loss": loss(),
                         "metrics": ["mae"], "weighted_metrics": ["mse"]}, fit=fit,
    )


for _reduction in ("sum", "sum_over_batch_size", "mean_with_sample_weight", "mean", None):
    add(
        f"loss_reduction_{_reduction}",
        _loss_case(lambda r=_reduction: keras.losses.MeanSquaredError(reduction=r)),
        multi_worker=True,
    )
    add(
        f"loss_reduction_{_reduction}_weighted",
        _loss_case(lambda r=_reduction: keras.losses.MeanSquaredError(reduction=r),
                   sample_weight=_weights(29)),
    )
add("loss_scalar_function", _loss_case(lambda: scalar_loss), multi_worker=True)
add("loss_scalar_weighted", _loss_case(lambda: scalar_loss, sample_weight=_weights(29)))
add("loss_per_sample_function", _loss_case(lambda: per_sample_loss))
add("loss_contrastive", _loss_case(Contrastive), multi_worker=True)
add("loss_huber", _loss_case(lambda: keras.losses.Huber(0.5)))


@case()
def loss_class_weight(scope: contextlib.AbstractContextManager[Any]) -> Result:
    x, y = classes(29)
    with scope:
        net = mlp(3)
        net.compile(
            keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    return trained(
        net, {"x": x, "y": y, "batch_size": 12, "class_weight": {0: 1.0, 1: 2.5, 2: 0.5}},
        evaluate={"x": x, "y": y, "batch_size": 12},
    )


@case()
def loss_dice(scope: contextlib.AbstractContextManager[Any]) -> Result:
    x, y = classes(29, count=2)
    with scope:
        net = keras.Sequential([layers.Input((6,)), layers.Dense(1, activation="sigmoid")])
        net.compile(keras.optimizers.SGD(0.1), keras.losses.Dice())
    return trained(net, {"x": x, "y": y[:, None].astype("float64"), "batch_size": 12})


class AddsLosses(layers.Layer):
    def call(self, x: Any) -> Any:
        self.add_loss(0.1 * keras.ops.mean(keras.ops.square(x)))
        return x


@case(multi_worker=True)
def loss_add_loss_and_regularizers(scope: contextlib.AbstractContextManager[Any]) -> Result:
    x, y = rows(25)
    with scope:
        net = keras.Sequential([
            layers.Input((6,)),
            layers.Dense(8, activation="tanh", kernel_regularizer=keras.regularizers.L2(0.05),
                         activity_regularizer=keras.regularizers.L1(0.02)),
            AddsLosses(),
            layers.Dense(1, bias_regularizer="l1"),
        ])
        net.compile(keras.optimizers.SGD(0.05), "mse")
    return trained(
        net, {"x": x, "y": y, "batch_size": 12}, evaluate={"x": x, "y": y, "batch_size": 12}
    )


# --- metrics -----------------------------------------------------------------------------------
@case(multi_worker=True)
def metrics_stateful(scope: contextlib.AbstractContextManager[Any]) -> Result:
    x, y = classes(29, count=2)
    with scope:
        net = keras.Sequential([layers.Input((6,)), layers.Dense(1, activation="sigmoid")])
        net.compile(
            keras.optimizers.SGD(0.1), "binary_crossentropy",
            metrics=["accuracy", keras.metrics.AUC(name="auc"), keras.metrics.Precision(name="p"),
                     keras.metrics.Recall(name="r"), keras.metrics.F1Score(name="f1"),
                     keras.metrics.TruePositives(name="tp"),
                     keras.metrics.RootMeanSquaredError(name="rmse")],
        )
    data = {"x": x, "y": y[:, None].astype("float64"), "batch_size": 12}
    return trained(net, {**data, "validation_split": 0.3}, evaluate=data)


# --- inputs and outputs ----------------------------------------------------------------------------
def two_headed() -> keras.Model:
    a, b = keras.Input((6,), name="a"), keras.Input((4,), name="b")
    hidden = layers.Dense(8, activation="tanh")(layers.Concatenate()([a, b]))
    return keras.Model(
        {"a": a, "b": b},
        {"value": layers.Dense(1, name="value")(hidden), "kind": layers.Dense(3, name="kind")(hidden)},
    )


@case(multi_worker=True)
def io_dicts_and_loss_weights(scope: contextlib.AbstractContextManager[Any]) -> Result:
    a, value = rows(29)
    b, kind = classes(29, features=4, seed=3)
    with scope:
        net = two_headed()
        net.compile(
            keras.optimizers.Adam(0.02),
            {"value": "mse", "kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
            loss_weights={"value": 0.3, "kind": 2.0}, metrics={"kind": ["accuracy"], "value": ["mae"]},
        )
    data = {"x": {"a": a, "b": b}, "y": {"value": value, "kind": kind}, "batch_size": 12}
    return trained(net, data, evaluate=data, predict={"a": a, "b": b})


class Subclassed(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = layers.Dense(8, activation="relu")
        self.out = layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.out(self.hidden(x))


add("io_subclassed_unbuilt", simple(29, 12, sgd(), model=Subclassed))
add("io_sequential_unbuilt", simple(29, 12, sgd(), model=lambda: keras.Sequential(
    [layers.Dense(4), layers.Dense(1)])))


@case(multi_worker=True)
def io_tf_data(scope: contextlib.AbstractContextManager[Any]) -> Result:
    x, y = rows(29)
    with scope:
        net = mlp()
        net.compile(keras.optimizers.SGD(0.05), "mse")
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(64, seed=3).batch(12)
    return trained(net, {"x": data, "validation_data": data.take(2)}, evaluate={"x": data}, predict=x)


@case()
def io_tf_data_infinite(scope: contextlib.AbstractContextManager[Any]) -> Result:
    x, y = rows(29)
    with scope:
        net = mlp()
        net.compile(keras.optimizers.SGD(0.05), "mse")
    data = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(13)
    return trained(net, {"x": data, "steps_per_epoch": 3})


class Batches(keras.utils.PyDataset):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.x, self.y = rows(29)

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        part = slice(12 * index, 12 * (index + 1))
        return self.x[part], self.y[part]


@case(multi_worker=True)
def io_py_dataset(scope: contextlib.AbstractContextManager[Any]) -> Result:
    with scope:
        net = mlp()
        net.compile(keras.optimizers.SGD(0.05), "mse")
    return trained(net, {"x": Batches()}, evaluate={"x": Batches()})


@case(multi_worker=True)
def io_generator(scope: contextlib.AbstractContextManager[Any]) -> Result:
    x, y = rows(60)

    def batches() -> Any:
        for start in range(0, 60, 10):
            yield x[start : start + 10], y[start : start + 10]

    with scope:
        net = mlp()
        net.compile(keras.optimizers.SGD(0.05), "mse")
    return trained(net, {"x": batches(), "steps_per_epoch": 3})


@case(multi_worker=True)
def io_on_batch(scope: contextlib.AbstractContextManager[Any]) -> Result:
    x, y = rows(13)
    with scope:
        net = mlp()
        net.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    logs = [net.train_on_batch(x, y), net.train_on_batch(x[:1], y[:1]),
            net.train_on_batch(x, y, sample_weight=_weights(13)), net.test_on_batch(x, y)]
    predictions = net.predict_on_batch(x)
    return {**state(net), "logs": np.asarray(logs, dtype="float64"), "predictions": predictions}


@case()
def io_validation_data_uneven(scope: contextlib.AbstractContextManager[Any]) -> Result:
    x, y = rows(24)
    xv, yv = rows(5, seed=9)
    with scope:
        net = mlp()
        net.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    return trained(
        net, {"x": x, "y": y, "batch_size": 8, "validation_data": (xv, yv, _weights(5)),
              "validation_batch_size": 4},
    )


@case(multi_worker=True)
def io_masked_sequences(scope: contextlib.AbstractContextManager[Any]) -> Result:
    rng = np.random.default_rng(2)
    tokens = rng.integers(1, 12, size=(29, 7))
    for row, length in enumerate(rng.integers(1, 8, size=29)):
        tokens[row, length:] = 0
    with scope:
        net = keras.Sequential([
            layers.Embedding(12, 5, mask_zero=True), layers.GRU(6, return_sequences=True),
            layers.Dense(12),
        ])
        net.compile(
            keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            weighted_metrics=["accuracy"],
        )
    return trained(
        net, {"x": tokens, "y": tokens, "batch_size": 12},
        evaluate={"x": tokens, "y": tokens, "batch_size": 12}, predict=tokens,
    )


# --- layers --------------------------------------------------------------------------------------
def _embedding_case(make: Callable[[], keras.optimizers.Optimizer]) -> Callable[..., Result]:
    def run(scope: contextlib.AbstractContextManager[Any]) -> Result:
        rng = np.random.default_rng(4)
        ids = rng.integers(0, 20, size=(29, 3))
        y = rng.normal(size=(29, 1))
        with scope:
            net = keras.Sequential([
                layers.Input((3,), dtype="int64"), layers.Embedding(20, 4), layers.Flatten(),
                layers.Dense(1),
            ])
            net.compile(make(), "mse")
        return trained(net, {"x": ids, "y": y, "batch_size": 12}, predict=ids)

    return run


add("layer_embedding_sgd", _embedding_case(lambda: keras.optimizers.SGD(0.1)), multi_worker=True)
add("layer_embedding_adam", _embedding_case(lambda: keras.optimizers.Adam(0.05)), multi_worker=True)
add("layer_embedding_clip", _embedding_case(lambda: keras.optimizers.SGD(0.1, global_clipnorm=0.1)))
add("layer_embedding_accumulation", _embedding_case(
    lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)))


@case(multi_worker=True)
def layer_batch_norm_synchronized(scope: contextlib.AbstractContextManager[Any]) -> Result:
    x, y = rows(27)
    with scope:
        net = keras.Sequential([
            layers.Input((6,)), layers.Dense(8), layers.BatchNormalization(synchronized=True),
            layers.Activation("relu"), layers.Dense(1),
        ])
        net.compile(keras.optimizers.SGD(0.05), "mse")
    return trained(net, {"x": x, "y": y, "batch_size": 13}, predict=x)


@case()
def layer_convolution(scope: contextlib.AbstractContextManager[Any]) -> Result:
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(21, 8, 8, 1)), rng.integers(0, 3, size=21)
    with scope:
        net = keras.Sequential([
            layers.Input((8, 8, 1)), layers.Conv2D(4, 3, activation="relu"),
            layers.GlobalAveragePooling2D(), layers.LayerNormalization(), layers.Dense(3),
        ])
        net.compile(
            keras.optimizers.Adam(0.02), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    return trained(net, {"x": x, "y": y, "batch_size": 8}, predict=x)


# --- ways to run -----------------------------------------------------------------------------------
add("run_steps_per_execution", simple(53, 8, lambda: {
    "optimizer": keras.optimizers.SGD(0.05), "loss": "mse", "metrics": ["mae"],
    "steps_per_execution": 3}))
add("run_eagerly", simple(13, 6, lambda: {
    "optimizer": keras.optimizers.SGD(0.05, clipnorm=0.5, gradient_accumulation_steps=2),
    "loss": "mse", "metrics": ["mae"], "run_eagerly": True}))


class OwnStep(keras.Model):
    """A `train_step` as in Keras' guides: no loss scaling, no `Loss` object."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp()

    def call(self, x: Any) -> Any:
        return self.net(x)

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = keras.ops.mean(keras.ops.square(self(x, training=True) - y))
            loss += 0.01 * keras.ops.sum(keras.ops.square(self.net.layers[0].kernel))
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables, strict=True))
        return {"own_loss": loss}


class OwnLoss(keras.Model):
    """A `compute_loss` that mixes Keras' losses with a mean over the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp()

    def call(self, x: Any) -> Any:
        return self.net(x)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        loss = super().compute_loss(x, y, y_pred, sample_weight)
        return loss + 0.1 * keras.ops.mean(keras.ops.square(y_pred))


def _own(model: Callable[[], keras.Model]) -> Callable[..., Result]:
    def run(scope: contextlib.AbstractContextManager[Any]) -> Result:
        x, y = rows(29)
        with scope:
            net = model()
            net.compile(keras.optimizers.SGD(0.05, global_clipnorm=0.5), "mse")
        return trained(net, {"x": x, "y": y, "batch_size": 12})

    return run


add("run_own_train_step", _own(OwnStep), multi_worker=True)
add("run_own_compute_loss", _own(OwnLoss))


@case()
def run_callbacks_decide(scope: contextlib.AbstractContextManager[Any]) -> Result:
    x, y = rows(29)
    with scope:
        net = mlp()
        net.compile(keras.optimizers.SGD(0.3), "mse")
    stop = keras.callbacks.EarlyStopping("loss", patience=1, min_delta=0.5)
    slow = keras.callbacks.ReduceLROnPlateau("loss", patience=0, min_delta=1.0, factor=0.5)
    return trained(net, {"x": x, "y": y, "batch_size": 12, "epochs": 8, "callbacks": [stop, slow]})


def _adam_on(data: tf.data.Dataset, scope: contextlib.AbstractContextManager[Any]) -> Result:
    with scope:
        net = mlp()
        net.compile(keras.optimizers.Adam(0.05), "mse")
    return trained(net, {"x": data}, evaluate={"x": data})


@case()
def io_tf_data_of_known_length(scope: contextlib.AbstractContextManager[Any]) -> Result:
    return _adam_on(tf.data.Dataset.from_tensor_slices(rows(29)).batch(12), scope)


@case(multi_worker=True, reference="io_tf_data_of_known_length")
def io_tf_data_of_unknown_length(scope: contextlib.AbstractContextManager[Any]) -> Result:
    """The end of the data is found by reaching it: no step may be half done there.

    Keras on one device does half a step there (the iteration is counted and Adam's momentum
    applied, without data), so the reference is the same data with a known length.
    """
    data = tf.data.Dataset.from_tensor_slices(rows(29)).filter(lambda a, b: True).batch(12)
    return _adam_on(data, scope)
