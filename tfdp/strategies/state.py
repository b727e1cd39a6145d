"""What a model's training goes on from: its variables and the optimizer's."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def state_variables(model: Any) -> list[Any]:
    """Weights, statistics, seeds and the optimizer's state, each once; no metrics."""
    optimizer = model.optimizer
    found = [*model.variables, *([] if optimizer is None else optimizer.variables)]
    return list({id(variable): variable for variable in found}.values())


def first_not_finite(model: Any) -> int | None:
    """Index, in `state_variables`, of the first with a NaN or an infinity; None: all are finite.

    Looks at the copies of this process's first replica.
    """
    copies = [
        (place, model.distribute_strategy.experimental_local_results(variable.value)[0])
        for place, variable in enumerate(state_variables(model))
        if variable.value.dtype.is_floating
    ]
    if not copies:
        return None
    with tf.device(copies[0][1].device):
        finite = tf.stack([tf.reduce_all(tf.math.is_finite(copy)) for _, copy in copies]).numpy()
    return next((place for (place, _), good in zip(copies, finite, strict=True) if not good), None)
