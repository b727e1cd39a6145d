"""Metrics with a state: sums, confusion matrices, thresholds."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from tests.parity.cases.base import (
    IN_TWO_WORKERS,
    Result,
    Scope,
    add,
    case,
    classes,
    compiled,
    crossentropy,
    mlp,
    simple,
    trained,
    yes_or_no,
)


@case(**IN_TWO_WORKERS)
def metrics_stateful(scope: Scope) -> Result:
    x, y = yes_or_no(29)

    def arguments() -> dict[str, Any]:
        return {
            "optimizer": keras.optimizers.SGD(0.1),
            "loss": "binary_crossentropy",
            "metrics": [
                "accuracy",
                keras.metrics.AUC(name="auc"),
                keras.metrics.Precision(name="precision"),
                keras.metrics.Recall(name="recall"),
                keras.metrics.F1Score(name="f1"),
                keras.metrics.TruePositives(name="true_positives"),
                keras.metrics.RootMeanSquaredError(name="rmse"),
            ],
        }

    net = compiled(
        scope,
        lambda: keras.Sequential([layers.Input((6,)), layers.Dense(1, activation="sigmoid")]),
        arguments,
    )
    examples = {"x": x, "y": y, "batch_size": 12}
    return trained(net, {**examples, "validation_split": 0.3}, evaluate=examples)


add(
    "metrics_confusion_matrix",
    simple(
        29,
        12,
        lambda: {
            "optimizer": keras.optimizers.SGD(0.1),
            "loss": crossentropy(),
            "metrics": [
                keras.metrics.MeanIoU(3, sparse_y_pred=False, name="iou"),
                keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="ce"),
            ],
        },
        model=lambda: mlp(3),
        data=classes,
    ),
)
add(
    "metrics_of_regression",
    simple(
        29,
        12,
        lambda: {
            "optimizer": keras.optimizers.SGD(0.05),
            "loss": "mse",
            "metrics": [
                keras.metrics.R2Score(name="r2"),
                keras.metrics.LogCoshError(name="log_cosh"),
                keras.metrics.MeanSquaredLogarithmicError(name="msle"),
            ],
        },
    ),
)


def rmse_of_batch(y_true: Any, y_pred: Any) -> Any:
    """One number for a batch: no mean of the parts gives it."""
    return keras.ops.sqrt(keras.ops.mean(keras.ops.square(y_pred - y_true)))


add(
    "metrics_of_one_number",
    simple(
        29,
        12,
        lambda: {
            "optimizer": keras.optimizers.SGD(0.05),
            "loss": "mse",
            "metrics": [rmse_of_batch],
        },
    ),
    **IN_TWO_WORKERS,
)
