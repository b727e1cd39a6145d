"""What a case is, and what most cases are made of.

A case builds its own model and data from fixed seeds, so that separate processes, with and
without a strategy, run exactly the same program.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

import keras
import numpy as np
from keras import layers

Result: TypeAlias = dict[str, np.ndarray]
Scope: TypeAlias = contextlib.AbstractContextManager[Any]
Program: TypeAlias = Callable[[Scope], Result]


@dataclasses.dataclass(frozen=True)
class Case:
    """One program.

    Attributes:
        run: trains in the given scope and returns what must be equal.
        tolerance: allowed difference relative to the size of the value; None is the suite's own.
        tolerance_float32: the same where the case also runs in float32; None is the suite's own.
        counts: the numbers of replicas, in one process, with which the case runs.
        workers: the groups, as (workers, devices of each), in which it runs.
        float32: whether it also runs in float32.
        reference: the case whose result on one device is the right one, if not this case itself.
    """

    run: Program
    tolerance: float | None = None
    tolerance_float32: float | None = None
    counts: tuple[int, ...] = (3,)
    workers: tuple[tuple[int, int], ...] = ()
    float32: bool = False
    reference: str | None = None


# A case says how far it goes: every case runs on 3 replicas.
IN_TWO_WORKERS: dict[str, Any] = {"workers": ((2, 2),)}
UP_TO_EIGHT = {"counts": (2, 3, 4, 8)}
EVERYWHERE: dict[str, Any] = {
    "counts": (2, 3, 4),
    "workers": ((2, 1), (2, 2), (3, 1)),
    "float32": True,
}

CASES: dict[str, Case] = {}


def add(name: str, run: Program, **options: Any) -> None:
    """Registers a case; `options` are the fields of `Case`."""
    if name in CASES:
        raise ValueError(f"there are two cases of the name {name!r}")
    CASES[name] = Case(run, **options)


def case(**options: Any) -> Callable[[Program], Program]:
    """Registers the function below it as a case of its name."""

    def register(function: Program) -> Program:
        add(function.__name__, function, **options)
        return function

    return register


def rows(n: int, features: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """`n` rows whose scale grows along the batch, so that replicas see different things."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, features)) * np.linspace(0.5, 2.0, n)[:, None]
    y = x @ rng.normal(size=(features, 1)) + 0.1 * rng.normal(size=(n, 1))
    return x, y


def classes(
    n: int, features: int = 6, count: int = 3, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """`n` rows `(n, features)` and their classes `(n,)`, of which there are `count`."""
    x, _ = rows(n, features, seed)
    rng = np.random.default_rng(seed + 1)
    return x, np.argmax(x @ rng.normal(size=(features, count)), axis=1)


def yes_or_no(n: int) -> tuple[np.ndarray, np.ndarray]:
    """`n` rows and a column `(n, 1)` of 0.0 or 1.0."""
    x, y = classes(n, count=2)
    return x, y[:, None].astype("float64")


def weights(n: int) -> np.ndarray:
    """Sample weights `(n,)` between 0 and 3."""
    return np.random.default_rng(5).uniform(0.0, 3.0, size=n)


def mlp(outputs: int = 1) -> keras.Model:
    """Six features, one hidden layer."""
    return keras.Sequential(
        [layers.Input((6,)), layers.Dense(8, activation="tanh"), layers.Dense(outputs)]
    )


def crossentropy() -> keras.losses.Loss:
    """For outputs that are logits, and targets that are class numbers."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def sgd(rate: float = 0.05, **arguments: Any) -> Callable[[], dict[str, Any]]:
    """Makes compile arguments: plain gradient descent on the squared error."""
    return lambda: {"optimizer": keras.optimizers.SGD(rate, **arguments), "loss": "mse"}


def compiled(
    scope: Scope, model: Callable[[], keras.Model], arguments: Callable[[], dict[str, Any]]
) -> keras.Model:
    """Builds and compiles in the scope."""
    with scope:
        net = model()
        net.compile(**arguments())
    return net


def state(model: keras.Model) -> Result:
    """Weights and optimizer variables, in the order Keras keeps them in.

    Named by place and shape: the names of variables depend on how many models a process has made.
    """
    kept = [variable for variable in model.weights if "seed" not in variable.path]
    found = {f"weight/{i}/{tuple(v.shape)}": np.array(v.numpy()) for i, v in enumerate(kept)}
    if getattr(model, "optimizer", None) is not None:
        for i, variable in enumerate(model.optimizer.variables):
            found[f"optimizer/{i}/{tuple(variable.shape)}"] = np.array(variable.numpy())
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
        scores = model.evaluate(**{"verbose": 0, "return_dict": True, **evaluate})
        result.update({f"evaluate/{name}": np.asarray(value) for name, value in scores.items()})
    if predict is not None:
        outputs = keras.tree.flatten(model.predict(predict, batch_size=7, verbose=0))
        result.update({f"predict/{i}": np.asarray(value) for i, value in enumerate(outputs)})
    return result


def simple(
    n: int,
    batch: int,
    arguments: Callable[[], dict[str, Any]],
    *,
    model: Callable[[], keras.Model] = mlp,
    data: Callable[[int], tuple[np.ndarray, np.ndarray]] = rows,
    fit: dict[str, Any] | None = None,
) -> Program:
    """Trains on `n` rows with the given compile arguments, evaluates and predicts."""

    def run(scope: Scope) -> Result:
        x, y = data(n)
        net = compiled(scope, model, arguments)
        examples = {"x": x, "y": y, "batch_size": batch}
        return trained(net, {**examples, **(fit or {})}, evaluate=examples, predict=x)

    return run
