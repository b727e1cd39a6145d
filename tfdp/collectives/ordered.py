"""Sums whose order, and so whose last bits, are the same in every step of every run."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def ordered_sum(values: Sequence[tf.Tensor]) -> tf.Tensor:
    """((v0 + v1) + v2) + ..., in this order.

    `tf.add_n` of three or more starts with the first input whose buffer it may overwrite, and
    whether it may depends on which other operation has finished with that input: a race, and
    `enable_op_determinism` does not end it. Writing additions does not help by itself, as
    TensorFlow's graph optimizer makes an AddN of them. It does not look past an EnsureShape, also
    where the sum is added to something else.

    Args:
        values: of one shape and dtype, at least one.
    """
    total = values[0]
    for value in values[1:]:
        total = tf.ensure_shape(total + value, values[0].shape)
    return total
