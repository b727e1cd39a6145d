"""The state of a model as arrays: every variable of the model, its optimizer and its metrics.

A variable that all replicas hold alike is one array. One of which each replica holds a part (what a
metric has added up, a gradient accumulator) is an array of parts, `(replicas, ...)`: a run that
goes on with as many replicas gets the parts back to the bit, another one gets what they come to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdp.errors import RunError
from tfdp.strategies.keras_compat import compression_slots, fit_loop
from tfdp.strategies.keras_compat import tensorflow_parts as tfp

_log = logging.getLogger("tfdp")

_PARTS = {tf.VariableAggregation.SUM: "sum", tf.VariableAggregation.MEAN: "mean"}

METRICS = "metrics"
"""First part of the names of what the running epoch has added up."""


@dataclass(frozen=True)
class StateArray:
    """The value of one variable.

    Attributes:
      name: its part of the state, its number there, and its path.
      value: the array; with `parts`, of shape `(replicas, ...)` in the order of the replicas.
      parts: what the parts of the replicas come to: "sum", "mean", or "first" (that of the first);
        None where all replicas hold the same.
    """

    name: str
    value: np.ndarray
    parts: str | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the variable."""
        return self.value.shape if self.parts is None else self.value.shape[1:]

    def total(self) -> np.ndarray:
        """What the parts come to."""
        if self.parts == "sum":
            return self.value.sum(axis=0, dtype=self.value.dtype)
        if self.parts == "mean":
            return self.value.mean(axis=0, dtype=self.value.dtype)
        return self.value if self.parts is None else self.value[0]

    def for_replicas(self, replicas: int) -> Sequence[np.ndarray]:
        """A part for each of `replicas` replicas; to the bit, where there were as many."""
        if self.parts is not None and len(self.value) == replicas:
            return list(self.value)
        total = self.total()
        if self.parts in ("mean", "first"):
            return [total] * replicas
        return [total, *[np.zeros_like(total)] * (replicas - 1)]

    @property
    def is_of_metric(self) -> bool:
        """Whether it belongs to the running epoch rather than to the model."""
        return self.name.startswith(f"{METRICS}/")


class StateReader:
    """Reads the state of one compiled model, again and again.

    Args:
      model: whose.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._gather: dict[tuple[int, ...], Callable[[], list[Any]]] = {}

    def read(self) -> list[StateArray]:
        """Everything that the model, whose optimizer is built, would go on from.

        A step that all workers take part in.
        """
        return self._read(_named_variables(self._model))

    def read_metrics(self) -> list[StateArray]:
        """What the metrics have added up; a step that all workers take part in."""
        return self._read(_named(METRICS, self._model.metrics_variables, set()))

    def _read(self, named: Iterable[tuple[str, keras.Variable]]) -> list[StateArray]:
        variables = list(named)
        parts = iter(self._parts([variable for _, variable in variables if _is_spread(variable)]))
        return [
            StateArray(name, next(parts), _PARTS.get(variable.value.aggregation, "first"))
            if _is_spread(variable)
            else StateArray(name, np.array(keras.ops.convert_to_numpy(variable)))
            for name, variable in variables
        ]

    def _parts(self, variables: Sequence[keras.Variable]) -> list[np.ndarray]:
        """Each variable's parts, `(replicas, ...)`."""
        strategy = self._model.distribute_strategy
        local = [np.stack([part.numpy() for part in v.value.values]) for v in variables]
        if not variables or len(local[0]) == strategy.num_replicas_in_sync:
            return local
        key = tuple(id(variable) for variable in variables)
        if key not in self._gather:
            self._gather[key] = _gather_function(strategy, variables)
        return [each.numpy() for each in self._gather[key]()]


def assign_state(model: keras.Model, state: Sequence[StateArray], place: str) -> None:
    """Gives every variable of `model` and its optimizer its value; the metrics are left alone.

    Args:
      model: compiled, with the architecture and the optimizer of the model that was read, on any
        number of replicas. An optimizer that is not built yet is built.
      state: what a `StateReader` gave.
      place: where it comes from, for messages.

    Raises:
      RunError: it belongs to another model or optimizer; this one is unchanged then.
    """
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    values = [array for array in state if not array.is_of_metric]
    variables = [
        (name, variable)
        for name, variable in _named_variables(model, random=any(map(_is_random, values)))
        if not name.startswith(f"{METRICS}/")
    ]
    values, variables = _with_same_compression(values, variables, place)
    if len(variables) != len(values):
        raise RunError(
            f"{place}: belongs to another model: it has {len(values)} variables, the model and "
            f"optimizer here have {len(variables)}."
        )
    for (name, variable), array in zip(variables, values, strict=True):
        if array.shape != tuple(variable.shape):
            raise RunError(
                f"{place}: belongs to another model: {name} has shape {array.shape} there and "
                f"{tuple(variable.shape)} here."
            )
        if _slot(array.name) != _slot(name):
            raise RunError(
                f"{place}: belongs to another optimizer: {array.name} there is {name} here."
            )
    for (_, variable), array in zip(variables, values, strict=True):
        _assign(variable, array)


def _with_same_compression(
    values: list[StateArray], variables: list[tuple[str, keras.Variable]], place: str
) -> tuple[list[StateArray], list[tuple[str, keras.Variable]]]:
    """Leaves a compression's state out where the other side has none; what is owed is lost then."""
    there = any(compression_slots.is_compression_state(array.name) for array in values)
    here = any(compression_slots.is_compression_state(name) for name, _ in variables)
    if there == here:
        return values, variables
    kept = "there and not here" if there else "here and not there"
    _log.warning(
        "%s: gradients are compressed with error feedback %s; what was owed begins at zero",
        place,
        kept,
    )
    return (
        [each for each in values if not compression_slots.is_compression_state(each.name)],
        [each for each in variables if not compression_slots.is_compression_state(each[0])],
    )


def assign_metrics(model: keras.Model, state: Sequence[StateArray]) -> None:
    """Lets the metrics go on from what a `StateReader` gave."""
    values = {array.name: array for array in state if array.is_of_metric}
    for name, variable in _named(METRICS, model.metrics_variables, set()):
        array = values.get(name)
        if array is not None:
            _assign(variable, array)


def _named_variables(
    model: keras.Model, random: bool = False
) -> Iterator[tuple[str, keras.Variable]]:
    """All variables, each once, in an order that is fixed; names are for people."""
    seen: set[int] = set()
    yield from _named("model", model.variables, seen)
    yield from _named("optimizer", model.optimizer.variables, seen)
    yield from _named("random", fit_loop.global_random_state(create=random), seen)
    yield from _named(METRICS, model.metrics_variables, seen)


def _named(
    part: str, variables: Iterable[keras.Variable], seen: set[int]
) -> Iterator[tuple[str, keras.Variable]]:
    for number, variable in enumerate(variables):
        if id(variable) not in seen:
            seen.add(id(variable))
            yield f"{part}/{number}/{variable.path}", variable


def _slot(name: str) -> str:
    """What the optimizer keeps there, as in "momentum": the layers' names differ between runs."""
    last = name.rpartition("/")[2]
    return last.rpartition("_")[2] if name.startswith("optimizer/") else ""


def _is_random(array: StateArray) -> bool:
    return array.name.startswith("random/")


def _is_spread(variable: keras.Variable) -> bool:
    return isinstance(variable.value, tfp.SyncOnReadVariable)


def _gather_function(
    strategy: tf.distribute.Strategy, variables: Sequence[keras.Variable]
) -> Callable[[], list[Any]]:
    """A function that gives each variable's parts from the replicas of all workers."""
    replicas = strategy.num_replicas_in_sync

    @tf.function(autograph=False)
    def gather() -> list[Any]:
        @tf.autograph.experimental.do_not_convert
        def slots() -> list[Any]:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            # A part beside zeros: the sum over the replicas is the parts, to the bit.
            return [
                tf.scatter_nd([[replica]], value[tf.newaxis], [replicas, *value.shape])
                for value in (tf.convert_to_tensor(v.value) for v in variables)
            ]

        return [strategy.reduce("SUM", each, axis=None) for each in strategy.run(slots)]

    function: Callable[[], list[Any]] = gather
    return function


def _assign(variable: keras.Variable, array: StateArray) -> None:
    if not _is_spread(variable):
        variable.assign(array.total())
        return
    strategy = variable.value.distribute_strategy
    if array.parts is None and variable.value.aggregation != tf.VariableAggregation.SUM:
        parts: Sequence[np.ndarray] = [array.value] * strategy.num_replicas_in_sync
    else:
        parts = array.for_replicas(strategy.num_replicas_in_sync)
    worker, _, replicas = place_of(strategy)
    for number, part in enumerate(variable.value.values):
        part.assign(parts[worker * replicas + number])


def place_of(strategy: tf.distribute.Strategy) -> tuple[int, int, int]:
    """`(worker, workers, replicas per worker)`."""
    place = getattr(strategy, "_tfdp_place", None)
    if place is None:  # a stock strategy in one process
        return 0, 1, strategy.num_replicas_in_sync
    found: tuple[int, int, int] = place()
    return found
