"""Every optimizer, and everything an optimizer does to a gradient before it uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras.optimizers import SGD, Adam, LossScaleOptimizer, ScheduleFreeAdamW

from tests.parity.cases.base import (
    EVERYWHERE,
    IN_TWO_WORKERS,
    UP_TO_EIGHT,
    Result,
    Scope,
    add,
    case,
    compiled,
    mlp,
    rows,
    simple,
    trained,
)

OPTIMIZERS: dict[str, Callable[[], keras.optimizers.Optimizer]] = {
    "adadelta": lambda: keras.optimizers.Adadelta(0.5),
    "adafactor": lambda: keras.optimizers.Adafactor(0.05),
    "adagrad": lambda: keras.optimizers.Adagrad(0.05),
    "adam": lambda: Adam(0.02, amsgrad=True),
    "adamax": lambda: keras.optimizers.Adamax(0.02),
    "adamw": lambda: keras.optimizers.AdamW(0.02, weight_decay=0.05),
    "ftrl": lambda: keras.optimizers.Ftrl(0.05),
    "lamb": lambda: keras.optimizers.Lamb(0.02),
    "lion": lambda: keras.optimizers.Lion(0.01),
    "muon": lambda: keras.optimizers.Muon(0.02),
    "nadam": lambda: keras.optimizers.Nadam(0.02),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01),
    "multi": lambda: keras.optimizers.MultiOptimizer(
        keras.optimizers.OptimizerMap(SGD(0.05), {".*kernel": Adam(0.02)})
    ),
    "momentum": lambda: SGD(0.02, momentum=0.9, nesterov=True),
    "schedule": lambda: SGD(keras.optimizers.schedules.CosineDecay(0.1, 6)),
    "clipnorm": lambda: SGD(0.05, clipnorm=0.3),
    "clipvalue": lambda: SGD(0.05, clipvalue=0.1),
    "global_clipnorm": lambda: Adam(0.05, global_clipnorm=0.3),
    "accumulation": lambda: Adam(0.05, gradient_accumulation_steps=2),
    "accumulation_unfinished": lambda: SGD(
        0.05, gradient_accumulation_steps=3, clipnorm=0.3, weight_decay=0.01
    ),
    "ema": lambda: Adam(0.05, use_ema=True, ema_momentum=0.8),
    "ema_overwrite": lambda: SGD(0.05, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=2),
    "accumulation_ema": lambda: SGD(
        0.05, gradient_accumulation_steps=2, use_ema=True, ema_overwrite_frequency=2
    ),
    "loss_scale_factor": lambda: SGD(0.05, loss_scale_factor=128.0),
    "loss_scale": lambda: LossScaleOptimizer(
        SGD(0.05, clipnorm=1.0), initial_scale=64.0, dynamic_growth_steps=2
    ),
    "loss_scale_accumulation": lambda: LossScaleOptimizer(
        SGD(0.05, gradient_accumulation_steps=2), initial_scale=64.0
    ),
}

_REACH: dict[str, dict[str, Any]] = {
    "clipnorm": EVERYWHERE | UP_TO_EIGHT,
    "accumulation_unfinished": EVERYWHERE,
    "momentum": {"float32": True},
    "ema_overwrite": IN_TWO_WORKERS,
    "loss_scale": IN_TWO_WORKERS,
}

for _name, _make in OPTIMIZERS.items():
    add(
        f"optimizer_{_name}",
        simple(29, 12, lambda make=_make: {"optimizer": make(), "loss": "mse"}),
        **_REACH.get(_name, {}),
    )


@case()
def optimizer_schedule_free_adamw(scope: Scope) -> Result:
    """Built before it trains.

    Keras on one device builds an optimizer inside the traced step otherwise, where what this one
    does to its variables at the start (they begin as copies of the weights) is lost.
    """
    x, y = rows(29)
    with scope:
        net = mlp()
        net.compile(ScheduleFreeAdamW(0.02), "mse")
        net.optimizer.build(net.trainable_variables)
    return trained(net, {"x": x, "y": y, "batch_size": 12})


@case(**IN_TWO_WORKERS)
def optimizer_loss_scale_overflow(scope: Scope) -> Result:
    """One row of one replica overflows: all must skip that step."""
    x, y = (part.astype("float32") for part in rows(30))
    x[7] = 3e38
    net = compiled(
        scope,
        mlp,
        lambda: {"optimizer": LossScaleOptimizer(SGD(0.05), initial_scale=64.0), "loss": "mse"},
    )
    result = trained(net, {"x": x, "y": y, "batch_size": 12})
    # The loss of the step that is skipped is infinite or NaN: nothing to compare.
    return {key: value for key, value in result.items() if not key.startswith("history")}
