"""The choice of cross-device ops is real: the traced step contains its ops and no other's."""

from __future__ import annotations

from typing import Any

import keras
import pytest
import tensorflow as tf

import tfdp
from tests.strategies import linear


def ops_of_a_step(strategy: Any) -> list[tuple[str, str]]:
    """Type and device of every op in the graph of one training step.

    The additions of gradients that keep their order are of type "sum in order".
    """
    net = linear.model(strategy, lambda: keras.optimizers.SGD(0.1, clipnorm=1.0))
    net.make_train_function()

    @tf.function
    def step(x: Any, y: Any) -> Any:
        return strategy.tfdp_run(net.train_step, ((x, y),), managed=True)

    graph = step.get_concrete_function(
        tf.TensorSpec((None, 2), tf.float64), tf.TensorSpec((None, 1), tf.float64)
    ).graph
    return [
        ("sum in order" if _adds_gradients_in_order(op) else op.type, op.device)
        for op in graph.get_operations()
    ]


def _adds_gradients_in_order(op: Any) -> bool:
    """Such an addition ends in an EnsureShape. The number of rows is a scalar, for any reducer."""
    return (
        op.type == "AddV2"
        and op.outputs[0].shape.rank != 0
        and any(after.type == "EnsureShape" for after in op.outputs[0].consumers())
    )


@pytest.mark.parametrize(
    ("name", "must", "must_not"),
    [
        ("ring", {"SplitV", "ConcatV2"}, {"CollectiveReduceV2", "sum in order"}),
        ("reduce_to_one", {"sum in order"}, {"CollectiveReduceV2"}),
        ("hierarchical_copy", {"AddN"}, {"CollectiveReduceV2", "sum in order"}),
    ],
)
def test_ops(name: str, must: set[str], must_not: set[str]) -> None:
    strategy = tfdp.strategy("mirrored", devices=4, cross_device_ops=name)
    types = {kind for kind, _ in ops_of_a_step(strategy)}
    assert must <= types
    assert not must_not & types


def test_reduce_to_one_adds_on_one_device_and_hierarchical_copy_on_several() -> None:
    def devices(name: str, kind: str) -> set[str]:
        strategy = tfdp.strategy("mirrored", devices=4, cross_device_ops=name)
        return {device for op, device in ops_of_a_step(strategy) if op == kind and device}

    assert len(devices("reduce_to_one", "sum in order")) == 1
    assert not devices("reduce_to_one", "AddN")
    assert len(devices("hierarchical_copy", "AddN")) > 1


def test_ring_runs_on_every_device() -> None:
    strategy = tfdp.strategy("mirrored", devices=4, cross_device_ops="ring")
    found = {(kind, device) for kind, device in ops_of_a_step(strategy) if device}
    for kind in ("SplitV", "AddV2", "ConcatV2"):
        assert len({device for op, device in found if op == kind}) == 4
