"""The state of a compression as variables of the optimizer, so that checkpoints have it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

import keras
import tensorflow as tf

from tfdp.collectives.error_feedback import (
    COMPRESSIBLE,
    CompressionState,
    ErrorFeedback,
    Slot,
)
from tfdp.errors import UnsupportedError

RESIDUAL: Final = "compression_residual"
BASIS: Final = "compression_basis"

_Pair = tuple[Any, Any | None]
_slots: weakref.WeakKeyDictionary[Any, list[_Pair | None]] = weakref.WeakKeyDictionary()


def add(optimizer: Any, variables: Sequence[Any], add_from_reference: Callable[..., Any]) -> None:
    """Gives an optimizer that is being built what its strategy's compression keeps.

    What a worker owes is its part of a sum, as a gradient accumulator is: on another number of
    replicas the first takes over all of it.

    Args:
        optimizer: of Keras.
        variables: that it trains.
        add_from_reference: Keras' own `add_variable_from_reference`.
    """
    strategy: Any = tf.distribute.get_strategy()
    reduction = getattr(strategy.extended, "tfdp_gradient_reduction", None)
    if not isinstance(reduction, ErrorFeedback):
        return
    found: list[_Pair | None] = []
    for number, variable in enumerate(variables):
        shape = tuple(variable.shape)
        kept = tf.as_dtype(variable.dtype) in COMPRESSIBLE and reduction.compresses(shape)
        if not kept:
            found.append(None)
            continue
        with strategy.tfdp_creating_accumulator():
            residual = add_from_reference(optimizer, variable, RESIDUAL, "zeros")
        basis = None
        basis_shape = reduction.basis_shape(shape)
        if basis_shape is not None:
            basis = optimizer.add_variable(
                shape=basis_shape,
                # The same on all workers, whatever else each has drawn.
                initializer=keras.initializers.RandomNormal(seed=number),
                dtype=variable.dtype,
                name=BASIS,
            )
        found.append((residual, basis))
    _slots[optimizer] = found


def state_of(optimizer: Any, variables: Sequence[Any]) -> CompressionState | None:
    """What the gradients of these variables are compressed with; None where nothing is kept."""
    pairs = _slots.get(optimizer)
    if pairs is None:
        return None
    chosen = [pairs[optimizer._get_variable_index(variable)] for variable in variables]
    slots = [None if pair is None else _slot(*pair) for pair in chosen]
    return CompressionState(tf.convert_to_tensor(optimizer.iterations), slots)


def refuse_scaling(optimizer: Any) -> None:
    """Raises UnsupportedError where the gradients of this inner optimizer would be kept."""
    if optimizer in _slots:
        raise UnsupportedError(
            'compression="topk" and "powersgd" keep a part of the gradients for later steps, and '
            "a loss scale that has changed meanwhile would make it wrong.",
            hint='Use mixed_bfloat16, or compression="bf16".',
        )


def is_compression_state(name: str) -> bool:
    """Whether a variable of this name is one of those here."""
    last = name.rpartition("/")[2]
    return RESIDUAL in last or BASIS in last


def _slot(residual: Any, basis: Any | None) -> Slot:
    copies = () if basis is None else tuple(basis.value.values)
    return Slot(residual.value.values[0], copies)
