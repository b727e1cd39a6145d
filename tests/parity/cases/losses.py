"""Losses and their divisors: each reduction divides an uneven batch by something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers, ops

from tests.parity.cases.base import (
    EVERYWHERE,
    IN_TWO_WORKERS,
    Program,
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
    trained,
    weights,
    yes_or_no,
)


def scalar_loss(y_true: Any, y_pred: Any) -> Any:
    """One number for a batch, and not the mean of anything."""
    return ops.mean(ops.square(y_pred - y_true)) ** 0.5


def per_sample_loss(y_true: Any, y_pred: Any) -> Any:
    """One number for each row."""
    return ops.mean(ops.abs(y_pred - y_true), axis=-1)


class Contrastive(keras.losses.Loss):
    """Depends on all pairs of rows: no mean of parts gives the whole."""

    def call(self, y_true: Any, y_pred: Any) -> Any:
        difference = y_pred - ops.transpose(y_pred)
        wanted = y_true - ops.transpose(y_true)
        return ops.mean(ops.square(difference - wanted))


def _with_loss(loss: Callable[[], Any], **fit: Any) -> Program:
    def arguments() -> dict[str, Any]:
        return {
            "optimizer": keras.optimizers.SGD(0.02),
            "loss": loss(),
            "metrics": ["mae"],
            "weighted_metrics": ["mse"],
        }

    return simple(29, 12, arguments, fit=fit)


_WEIGHTED = {"sample_weight": weights(29)}
for _reduction in ("sum", "sum_over_batch_size", "mean_with_sample_weight", "mean", None):

    def _make(reduction: str | None = _reduction) -> keras.losses.Loss:
        return keras.losses.MeanSquaredError(reduction=reduction)

    _reach = EVERYWHERE if _reduction == "mean_with_sample_weight" else IN_TWO_WORKERS
    add(f"loss_reduction_{_reduction}", _with_loss(_make), **IN_TWO_WORKERS)
    add(f"loss_reduction_{_reduction}_weighted", _with_loss(_make, **_WEIGHTED), **_reach)

add("loss_scalar_function", _with_loss(lambda: scalar_loss), **EVERYWHERE)
add("loss_scalar_weighted", _with_loss(lambda: scalar_loss, **_WEIGHTED))
add("loss_per_sample_function", _with_loss(lambda: per_sample_loss))
add("loss_contrastive", _with_loss(Contrastive), **IN_TWO_WORKERS)
add("loss_huber", _with_loss(lambda: keras.losses.Huber(0.5)))
add(
    "loss_dice",
    simple(
        29,
        12,
        lambda: {"optimizer": keras.optimizers.SGD(0.1), "loss": keras.losses.Dice()},
        model=lambda: keras.Sequential([layers.Input((6,)), layers.Dense(1, "sigmoid")]),
        data=yes_or_no,
    ),
)
add(
    "loss_class_weight",
    simple(
        29,
        12,
        lambda: {
            "optimizer": keras.optimizers.SGD(0.1),
            "loss": crossentropy(),
            "metrics": ["accuracy"],
        },
        model=lambda: mlp(3),
        data=classes,
        fit={"class_weight": {0: 1.0, 1: 2.5, 2: 0.5}},
    ),
    float32=True,
)


class AddsLosses(layers.Layer):
    """Adds a loss that is a mean over the rows, and one with a value for each row."""

    def call(self, x: Any) -> Any:
        self.add_loss(0.1 * ops.mean(ops.square(x)))
        self.add_loss(0.01 * ops.sum(ops.abs(x), axis=-1))
        return x


@case(**IN_TWO_WORKERS)
def loss_add_loss_and_regularizers(scope: Scope) -> Result:
    x, y = rows(25)

    def model() -> keras.Model:
        return keras.Sequential(
            [
                layers.Input((6,)),
                layers.Dense(
                    8,
                    activation="tanh",
                    kernel_regularizer=keras.regularizers.L2(0.05),
                    activity_regularizer=keras.regularizers.L1(0.02),
                ),
                AddsLosses(),
                layers.Dense(1, bias_regularizer="l1"),
            ]
        )

    examples = {"x": x, "y": y, "batch_size": 12}
    return trained(compiled(scope, model, sgd()), examples, evaluate=examples)
