"""Optimizer, loss and metrics by the names that Keras gives them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from tfdp.config.suggest import unknown
from tfdp.errors import ConfigError

_METRIC_SHORTHANDS = ("accuracy", "acc", "crossentropy", "ce")


def compile_model(
    model: keras.Model,
    *,
    optimizer: keras.optimizers.Optimizer,
    loss: str,
    metrics: Sequence[str],
    steps_per_execution: int = 1,
    jit_compile: bool = False,
) -> None:
    """Compiles `model` in place.

    Args:
      model: any Keras model; one that is compiled already is compiled anew.
      optimizer: see `build_optimizer`.
      loss: a Keras loss by name.
      metrics: Keras metrics by name; "accuracy" finds the kind that suits the loss.
      steps_per_execution: steps in one call into TensorFlow.
      jit_compile: whether XLA compiles the step.

    Raises:
      ConfigError: Keras knows no such loss or metric.
    """
    problems = [
        *_unknown_name(loss, "training.loss", "loss", keras.losses.get, keras.losses),
        *(
            problem
            for metric in metrics
            if metric not in _METRIC_SHORTHANDS
            for problem in _unknown_name(
                metric, "training.metrics", "metric", keras.metrics.get, keras.metrics
            )
        ),
    ]
    if problems:
        raise ConfigError(problems)
    model.compile(
        optimizer=optimizer,
        loss=loss,
        metrics=list(metrics),
        steps_per_execution=steps_per_execution,
        jit_compile=jit_compile,
    )


def build_optimizer(
    name: str, learning_rate: float, arguments: Mapping[str, Any]
) -> keras.optimizers.Optimizer:
    """Makes a Keras optimizer.

    Args:
      name: its class name in any case, for example "adamw".
      learning_rate: step size.
      arguments: its other keyword arguments.

    Raises:
      ConfigError: there is no such optimizer, or it refuses an argument.
    """
    classes = _optimizer_classes()
    if name.lower() not in classes:
        raise ConfigError(f"optimizer.name: {unknown(name, classes, what='optimizer')}")
    optimizer_class = classes[name.lower()]
    accepted = [
        parameter
        for parameter in inspect.signature(optimizer_class).parameters
        if parameter not in ("learning_rate", "kwargs")
    ]
    problems = [
        f"optimizer.arguments.{key}: {unknown(key, accepted, what=f'argument of {name}')}"
        for key in arguments
        if key not in accepted
    ]
    if problems:
        raise ConfigError(problems)
    try:
        return optimizer_class(learning_rate=learning_rate, **arguments)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"optimizer: {name} refuses {dict(arguments)}: {' '.join(str(error).split())}"
        ) from error


def _optimizer_classes() -> dict[str, type[keras.optimizers.Optimizer]]:
    """The optimizers that stand on their own, by lower-case name."""
    base = keras.optimizers.Optimizer
    return {
        name.lower(): value
        for name, value in vars(keras.optimizers).items()
        if inspect.isclass(value)
        and issubclass(value, base)
        and value not in (base, keras.optimizers.LossScaleOptimizer)
    }


def _unknown_name(
    name: str, key: str, what: str, get: Callable[[str], Any], namespace: Any
) -> list[str]:
    try:
        get(name)
    except ValueError:
        known = sorted(
            member
            for member, value in vars(namespace).items()
            if (inspect.isfunction(value) or inspect.isclass(value))
            and member not in ("get", "serialize", "deserialize", "Loss", "Metric")
        )
        return [f"{key}: {unknown(name, known, what=what)}"]
    return []
