"""Sums keep their order, whichever buffers TensorFlow may use again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdp.collectives.hierarchy import sum_inside
from tfdp.collectives.ordered import ordered_sum

LARGE = 1e8
"""1 + LARGE is LARGE in float32: only (LARGE - LARGE) + 1 gives 1."""


def summed(add: Callable[[Sequence[tf.Tensor]], tf.Tensor], *, free: Sequence[int]) -> float:
    """LARGE - LARGE + 1 by `add`; the buffers of the inputs in `free` may be overwritten."""
    kept = [tf.Variable(np.full(300, value, np.float32)) for value in (LARGE, -LARGE, 1.0)]

    @tf.function
    def step() -> Any:
        values = [variable.read_value() for variable in kept]
        return add([abs(v) if i in free else v for i, v in enumerate(values)])

    (total,) = set(step().numpy().tolist())
    return float(total)


def test_upstream_an_add_n_begins_with_the_input_that_it_may_overwrite() -> None:
    assert summed(tf.add_n, free=[]) == 1
    assert summed(tf.add_n, free=[2]) == 0


def test_upstream_a_chain_of_additions_becomes_an_add_n() -> None:
    assert summed(lambda values: values[0] + values[1] + values[2], free=[2]) == 0


@pytest.mark.parametrize("add", [ordered_sum, sum_inside])
@pytest.mark.parametrize("free", [[], [2], [0, 2]])
def test_the_order_is_that_of_the_values(add: Any, free: list[int]) -> None:
    assert summed(add, free=free) == 1


@pytest.mark.parametrize("free", [[], [2]])
def test_what_is_added_to_a_sum_comes_last(free: list[int]) -> None:
    assert summed(lambda v: ordered_sum([sum_inside(v[:2]), v[2]]), free=free) == 1


def test_one_value_is_its_own_sum() -> None:
    assert ordered_sum([tf.constant([3.0])]).numpy().tolist() == [3]
