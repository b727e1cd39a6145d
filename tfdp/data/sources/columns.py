"""From named columns to (x, y) and (x, y, sample_weight), checked on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfdp.config.suggest import unknown
from tfdp.errors import DataError


def arrange(
    columns: Mapping[str, Any],
    inputs: Sequence[str],
    target: str,
    weight: str | None,
) -> tuple[Any, ...]:
    """`(x, y)` or `(x, y, sample_weight)`; x is a dict where there are several inputs."""
    x = columns[inputs[0]] if len(inputs) == 1 else {name: columns[name] for name in inputs}
    parts = (x, columns[target])
    return parts if weight is None else (*parts, columns[weight])


def check_names(wanted: Sequence[str], known: Sequence[str], place: str) -> None:
    """Raises a `DataError` that names the columns which are missing."""
    missing = [name for name in wanted if name not in known]
    if missing:
        first = unknown(missing[0], known, what="column")
        more = f" (missing too: {', '.join(missing[1:])})" if missing[1:] else ""
        raise DataError(f"{place}: {first}{more}.")


def checked(columns: tuple[Any, ...], classes: int | None) -> tuple[Any, ...]:
    """The columns of a batch, with assertions that floats are finite and labels in range."""
    checks = [
        tf.debugging.assert_all_finite(leaf, "a value is not finite (NaN or infinity)")
        for leaf in tf.nest.flatten(columns)
        if leaf.dtype.is_floating
    ]
    target = columns[1]
    if classes is not None and isinstance(target, tf.Tensor) and target.dtype.is_integer:
        text = f"a label is out of range: {classes} classes have labels from 0 to {classes - 1}"
        limit = tf.constant(classes, target.dtype)
        inside = tf.logical_and(target >= 0, target < limit)
        checks.append(tf.debugging.Assert(tf.reduce_all(inside), [text]))
    if not checks:
        return columns
    with tf.control_dependencies(checks):
        return tuple(tf.nest.map_structure(tf.identity, columns))
