"""Optimizers, losses and metrics by name."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from tfdp.config.names import OPTIMIZERS
from tfdp.errors import ConfigError
from tfdp.models.compiling import build_optimizer, compile_model


def model() -> keras.Model:
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_of_the_config_is_made(name: str) -> None:
    optimizer = build_optimizer(name, 0.25, {})
    assert type(optimizer).__name__.lower() == name
    assert float(np.asarray(optimizer.learning_rate)) == 0.25


def test_arguments_reach_the_optimizer() -> None:
    optimizer = build_optimizer("AdamW", 0.1, {"weight_decay": 0.5, "global_clipnorm": 2.0})
    assert (optimizer.weight_decay, optimizer.global_clipnorm) == (0.5, 2.0)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("adamm", {}, 'optimizer.name: unknown optimizer "adamm"; did you mean "adam"'),
        ("sgd", {"momentun": 0.9}, r'unknown argument of sgd "momentun"; did you mean "momentum"'),
        ("adam", {"clipnorm": 1.0, "clipvalue": 1.0}, "adam refuses .*Only one of"),
    ],
)
def test_refuses_an_optimizer(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_optimizer(name, 0.1, arguments)


def test_every_unknown_argument_is_reported() -> None:
    with pytest.raises(ConfigError) as caught:
        build_optimizer("sgd", 0.1, {"a": 1, "b": 2})
    assert len(caught.value.problems) == 2


def test_one_sgd_step_is_what_the_names_promise() -> None:
    one = model()
    compile_model(
        one,
        optimizer=build_optimizer("sgd", 0.5, {}),
        loss="mean_squared_error",
        metrics=["mean_absolute_error", "auc"],
    )
    x, y = np.array([[1.0, 2.0]], "float32"), np.array([[1.0]], "float32")
    kernel, bias = (np.asarray(weight) for weight in one.weights)
    error = (x @ kernel + bias - y)[0, 0]
    logs = one.train_on_batch(x, y, return_dict=True)
    np.testing.assert_allclose(logs["loss"], error**2, rtol=1e-6)
    np.testing.assert_allclose(logs["mean_absolute_error"], abs(error), rtol=1e-6)
    expected = kernel - 0.5 * 2 * error * x.T
    np.testing.assert_allclose(np.asarray(one.weights[0]), expected, rtol=1e-5)


def test_unknown_loss_and_metric_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        compile_model(
            model(),
            optimizer=build_optimizer("sgd", 0.1, {}),
            loss="mean_squared_eror",
            metrics=["accuracy", "F1"],
        )
    loss, metric = caught.value.problems
    assert loss.startswith(
        'training.loss: unknown loss "mean_squared_eror"; did you mean "mean_squared_error"?'
    )
    assert metric.startswith('training.metrics: unknown metric "F1"')
