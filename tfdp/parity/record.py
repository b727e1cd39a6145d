"""Trains a model and writes down everything that another run can be compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

GROUPS = ("weights", "statistics", "optimizer state", "random streams")
"""Kinds of variables."""


@dataclass
class Record:
    """One training run.

    Attributes:
      arrays: what can be compared. `final/GROUP/i`: the variables in the end; `trace/GROUP/i`:
        `(steps, 2)`, see `fingerprint`; `log/NAME`: `(steps,)`; `history/NAME`: `(epochs,)`;
        `evaluate/NAME`; `predict/i`; `steps`: `(steps,)`, numbers of the steps from 1.
      names: the path of each variable, by group.
    """

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)


def train_and_record(
    model: keras.Model, fit: Mapping[str, Any], *, evaluate: Mapping[str, Any], predict: Any
) -> Record:
    """Fits, evaluates and predicts.

    Args:
      model: compiled; built or not.
      fit: arguments of `model.fit`.
      evaluate: arguments of `model.evaluate`.
      predict: arguments of `model.predict`.
    """
    trace = _Trace()
    history = model.fit(**fit, shuffle=False, verbose=0, callbacks=[trace])
    record = Record({"steps": np.asarray(trace.steps)})
    for name, values in trace.logs.items():
        record.arrays[f"log/{name}"] = np.asarray(values, dtype=np.float64)
    for name, values in history.history.items():
        record.arrays[f"history/{name}"] = np.asarray(values, dtype=np.float64)
    for group, variables in variables_of(model).items():
        record.names[group] = [variable.path for variable in variables]
        for i, variable in enumerate(variables):
            record.arrays[f"final/{group}/{i}"] = _value(variable)
            record.arrays[f"trace/{group}/{i}"] = np.asarray(trace.prints[group, i])
    for name, value in model.evaluate(**evaluate, verbose=0, return_dict=True).items():
        record.arrays[f"evaluate/{name}"] = np.asarray(value, dtype=np.float64)
    for i, output in enumerate(keras.tree.flatten(model.predict(**predict, verbose=0))):
        record.arrays[f"predict/{i}"] = np.asarray(output)
    return record


def variables_of(model: keras.Model) -> dict[str, list[Any]]:
    """The variables of a model and its optimizer by group, in the order Keras keeps them in."""
    trainable = {id(variable) for variable in model.trainable_variables}
    streams = [v for v in model.variables if "seed_generator_state" in v.path]
    outside = trainable | {id(v) for v in streams} | {id(v) for v in model.metrics_variables}
    optimizer = model.optimizer.variables if model.optimizer is not None else []
    own = {id(v) for v in model.weights}
    return {
        "weights": list(model.trainable_variables),
        "statistics": [v for v in model.variables if id(v) in own and id(v) not in outside],
        "optimizer state": list(optimizer),
        "random streams": streams,
    }


def fingerprint(value: np.ndarray) -> tuple[float, float]:
    """Two numbers that show whether a large array has changed, and by about how much.

    Returns:
      The sum of the values with random signs, divided by the square root of their number (if the
      values change by d on average, it changes by about d), and the root of their mean square.
    """
    flat = np.ravel(value).astype(np.float64)
    if flat.size == 0:
        return 0.0, 0.0
    signs = np.random.default_rng(flat.size).integers(0, 2, flat.size, dtype=np.int8) * 2 - 1
    with np.errstate(over="ignore", invalid="ignore"):
        projection = np.dot(flat, signs) / np.sqrt(flat.size)
        return float(projection), float(np.sqrt(np.mean(np.square(flat))))


class _Trace(keras.callbacks.Callback):
    """Logs and fingerprints after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[int] = []
        self.logs: dict[str, list[float]] = {}
        self.prints: dict[tuple[str, int], list[tuple[float, float]]] = {}
        self._done = 0
        self._in_epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._done += self._in_epoch
        self._in_epoch = 0

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._in_epoch = batch + 1
        self.steps.append(self._done + self._in_epoch)
        for name, value in (logs or {}).items():
            self.logs.setdefault(name, []).append(float(np.mean(np.asarray(value))))
        for group, variables in variables_of(self.model).items():
            for i, variable in enumerate(variables):
                self.prints.setdefault((group, i), []).append(fingerprint(_value(variable)))


def _value(variable: Any) -> np.ndarray:
    value = np.array(variable.numpy())
    # NumPy has no bfloat16 of its own, and cannot read back what another package registers.
    return value if value.dtype.kind in "fiub" else value.astype(np.float64)
