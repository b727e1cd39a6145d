"""Linear regression small enough that NumPy alone gives the answer (test_independent.py).

Seven rows in batches of three: the last batch has one row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import layers
from keras.optimizers import SGD

from tests.parity.cases.base import Program, Result, Scope, add, compiled

X = np.random.default_rng(20).normal(size=(7, 2)) * np.linspace(0.5, 3.0, 7)[:, None]
Y = np.random.default_rng(21).normal(size=(7, 1))
WEIGHTS = np.array([0.5, 2.0, 0.0, 1.0, 3.0, 0.25, 1.5])
KERNEL = np.array([[0.3], [-0.2]])
BATCH = 3
EPOCHS = 2
RATE = 0.1
# Keras rounds these two to float32, also where everything is float64: they are exact in both.
MOMENTUM = 0.875
DECAY = 0.0625


def _linear() -> keras.Model:
    kernel = keras.initializers.Constant(KERNEL)
    return keras.Sequential([layers.Input((2,)), layers.Dense(1, kernel_initializer=kernel)])


def _program(
    optimizer: Callable[[], keras.optimizers.Optimizer],
    reduction: str = "sum_over_batch_size",
    sample_weight: np.ndarray | None = None,
    model: Callable[[], keras.Model] = _linear,
) -> Program:
    def arguments() -> dict[str, Any]:
        loss = keras.losses.MeanSquaredError(reduction=reduction)
        return {"optimizer": optimizer(), "loss": loss}

    def run(scope: Scope) -> Result:
        net = compiled(scope, model, arguments)
        history = net.fit(
            X,
            Y,
            sample_weight=sample_weight,
            batch_size=BATCH,
            epochs=EPOCHS,
            shuffle=False,
            verbose=0,
        )
        variables = {v.path.rsplit("/")[-1]: np.array(v.numpy()) for v in net.weights}
        return {**variables, "loss": np.asarray(history.history["loss"])}

    return run


def _normalised() -> keras.Model:
    norm = layers.BatchNormalization(synchronized=True, momentum=0.9, name="norm")
    return keras.Sequential([layers.Input((2,)), norm])


_PLAIN: dict[str, Any] = {"optimizer": lambda: SGD(RATE)}
add("linear_sgd", _program(**_PLAIN))
add("linear_sum", _program(lambda: SGD(RATE / 10), "sum"))
add("linear_weighted", _program(**_PLAIN, sample_weight=WEIGHTS))
add(
    "linear_weighted_mean",
    _program(**_PLAIN, reduction="mean_with_sample_weight", sample_weight=WEIGHTS),
)
add("linear_clipnorm", _program(lambda: SGD(RATE, clipnorm=0.5)))
add("linear_global_clipnorm", _program(lambda: SGD(RATE, global_clipnorm=0.5)))
add("linear_momentum_decay", _program(lambda: SGD(RATE, momentum=MOMENTUM, weight_decay=DECAY)))
add("linear_accumulation", _program(lambda: SGD(RATE, gradient_accumulation_steps=2)))
add("linear_batch_norm", _program(lambda: SGD(0.0), model=_normalised))
