"""The ring between the devices of one process: its bytes, its bits, and what it is fed with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfdp
from tests.collectives import worker_cases
from tfdp.collectives.ring import RingReduction

ELEMENT_BYTES = 4


def devices(count: int) -> list[str]:
    return [f"/device:CPU:{place}" for place in range(count)]


def traced(count: int, size: int) -> tf.Graph:
    """The ring over vectors that are on the devices already."""
    names = devices(count)
    held = []
    for name in names:
        with tf.device(name):
            held.append(tf.zeros(size))

    @tf.function(autograph=False)
    def run() -> list[tf.Tensor]:
        vectors = []
        for name, value in zip(names, held, strict=True):
            with tf.device(name):
                vectors.append(tf.identity(value))
        return RingReduction().sum(vectors, names)

    graph: tf.Graph = run.get_concrete_function().graph
    return graph


def sent(graph: tf.Graph) -> dict[str, int]:
    """Bytes that leave each device: every tensor that an operation of another device reads."""
    crossing = {
        (read.name, operation.device): (read.op.device, read.shape.num_elements())
        for operation in graph.get_operations()
        for read in operation.inputs
        if read.op.device and operation.device and read.op.device != operation.device
        if read.op.type != "Placeholder"
    }
    total: dict[str, int] = {}
    for source, elements in crossing.values():
        total[source] = total.get(source, 0) + elements * ELEMENT_BYTES
    return total


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7, 8])
def test_a_device_sends_its_share_of_the_bytes_and_no_more(count: int) -> None:
    """2 (N-1)/N of the vector; where N does not divide it, to a whole element of two segments."""
    for size in (840 * count, 840 * count + count - 1, 10_007):
        found = sent(traced(count, size))
        assert len(found) == count
        assert sum(found.values()) == 2 * (count - 1) * size * ELEMENT_BYTES
        for bytes_sent in found.values():
            exact = 2 * (count - 1) * size / count * ELEMENT_BYTES
            assert abs(bytes_sent - exact) < 2 * ELEMENT_BYTES
            if size % count == 0:
                assert bytes_sent == exact


def test_reducing_to_one_device_sends_more_from_it() -> None:
    """That the count above can tell: the device that adds sends the sum to all others."""
    names = devices(4)

    @tf.function(autograph=False)
    def run() -> list[tf.Tensor]:
        vectors = [on(name, tf.random.uniform, [1000]) for name in names]
        total = on(names[0], tf.add_n, vectors)
        return [on(name, tf.identity, total) for name in names]

    one = sent(run.get_concrete_function().graph)
    assert sorted(one.values()) == [4000, 4000, 4000, 12_000]
    assert set(sent(traced(4, 1000)).values()) == {6000}


def on(device: str, operation: Any, *arguments: Any) -> Any:
    with tf.device(device):
        return operation(*arguments)


@pytest.mark.parametrize("count", [2, 3, 5, 8])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 1025])
def test_sizes_that_the_devices_do_not_divide(count: int, size: int) -> None:
    """Within (N - 1) eps sum|x| of NumPy's float64 (Higham 2002, eq. 4.4), the same bits on all.

    Once with the size known when it is traced, and once not.
    """
    rng = np.random.default_rng([count, size])
    values = rng.normal(size=(count, size)).astype("float32")
    exact = values.astype(np.float64).sum(axis=0)
    bound = (count - 1) * np.finfo("float32").eps * np.abs(values).sum(axis=0)
    for shape in ([size], [None]):
        run = tf.function(
            lambda *vectors: RingReduction().sum(vectors, devices(count)),
            input_signature=[tf.TensorSpec(shape)] * count,
            autograph=False,
        )
        sums = [each.numpy() for each in run(*(tf.constant(each) for each in values))]
        assert (np.abs(sums[0] - exact) <= bound).all()
        assert {each.tobytes() for each in sums} == {sums[0].tobytes()}
        assert sums[0].shape == (size,)


def test_one_call_with_many_dtypes_shapes_and_buckets() -> None:
    strategy: Any = tfdp.strategy("mirrored", devices=3, cross_device_ops="ring", bucket_mb=0.001)
    values = [
        lambda r: tf.constant(r + 1, tf.int32),
        lambda r: tf.constant([[r, 2.0]], tf.float64),
        lambda r: tf.zeros((0, 2)),
        lambda r: tf.fill((700,), float(r)),
        lambda r: tf.fill((3, 5), tf.constant(r, tf.bfloat16)),
        lambda r: tf.constant([r], tf.int64),
    ]

    @tf.function(autograph=False)
    def run() -> Any:
        def replica() -> Any:
            context = tf.distribute.get_replica_context()
            number = int(context._replica_id)
            return context.all_reduce("SUM", [make(number) for make in values])

        return strategy.run(replica)

    for each in zip(*map(strategy.experimental_local_results, run()), strict=True):
        scalar, row, empty, long, short, last = each
        assert scalar.numpy() == 6
        assert row.numpy().tolist() == [[3.0, 6.0]]
        assert empty.shape == (0, 2)
        assert set(long.numpy()) == {3.0}
        assert set(short.numpy().astype(float).ravel()) == {3.0}
        assert last.numpy().tolist() == [3]


def test_training_equals_one_device() -> None:
    """Sparse gradients, an uneven last batch and clipping, on three replicas."""
    strategy = tfdp.strategy("mirrored", devices=3, cross_device_ops="ring")
    for found, expected in zip(worker_cases.fit(strategy), worker_cases.fit(), strict=True):
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
