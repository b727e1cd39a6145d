"""One table of cases for every reducer that can run here, against NumPy's float64 sum."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfdp
from tfdp import collectives
from tfdp.collectives import registry

REDUCERS = ("ring", "reduce_to_one", "hierarchical_copy")
REPLICAS = (2, 3, 4)


SERVED = [(name, n) for name in REDUCERS for n in REPLICAS if (name, n) != ("hierarchical_copy", 3)]


SERVED.append(("mine", 3))  # a user's own: the one in the documentation


@pytest.fixture(scope="module")
def documented() -> Iterator[None]:
    """Runs the example of `tfdp.collectives`, which registers a reducer."""
    (example,) = (each for each in doctest.DocTestFinder().find(collectives) if each.examples)
    found = doctest.DocTestRunner().run(example, clear_globs=False)  # its classes need them
    assert found.failed == 0
    assert found.attempted > 3
    yield
    del registry._REDUCERS["mine"]


@pytest.fixture(scope="module", params=SERVED, ids=lambda value: f"{value[0]}-{value[1]}")
def strategy(request: pytest.FixtureRequest, documented: None) -> Any:
    name, replicas = request.param
    return tfdp.strategy("mirrored", devices=replicas, cross_device_ops=name)


def reduced(strategy: Any, values: list[Any], op: str = "SUM") -> list[Any]:
    """What each replica gets when replica r contributes `values[r]`, in a graph."""
    held = strategy.experimental_distribute_values_from_function(
        lambda context: values[context.replica_id_in_sync_group]
    )

    @tf.function
    def run(held: Any) -> Any:
        return strategy.run(
            lambda value: tf.distribute.get_replica_context().all_reduce(op, value), args=(held,)
        )

    return [np.asarray(v.numpy()) for v in strategy.experimental_local_results(run(held))]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (64, 1025)])
def test_sum(strategy: Any, dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    values = [
        tf.cast(rng.integers(-8, 8, size=shape), dtype)
        for _ in range(strategy.num_replicas_in_sync)
    ]
    results = reduced(strategy, values)
    expected = np.sum([np.asarray(v, dtype=np.float64) for v in values], axis=0)
    for result in results:  # integers below 2**8 are exact in every one of these dtypes
        np.testing.assert_array_equal(result.astype(np.float64), expected)


def test_rounding_stays_within_the_bound_and_is_the_same_everywhere(strategy: Any) -> None:
    """|error| <= (N - 1) eps sum|x|, for any order of N - 1 additions (Higham 2002, eq. 4.4)."""
    replicas = strategy.num_replicas_in_sync
    rng = np.random.default_rng(1)
    values = [rng.normal(size=10_007).astype("float32") for _ in range(replicas)]
    results = reduced(strategy, [tf.constant(v) for v in values])
    exact = np.sum([v.astype(np.float64) for v in values], axis=0)
    bound = (replicas - 1) * np.finfo("float32").eps * np.sum(np.abs(values), axis=0)
    assert (np.abs(results[0] - exact) <= bound).all()
    for result in results[1:]:
        assert result.tobytes() == results[0].tobytes()


def test_mean(strategy: Any) -> None:
    replicas = strategy.num_replicas_in_sync
    values = [tf.constant([float(r), 2.0], tf.float64) for r in range(replicas)]
    for result in reduced(strategy, values, "MEAN"):
        np.testing.assert_allclose(result, [(replicas - 1) / 2, 2.0], rtol=1e-15)


def test_several_dtypes_in_one_call(strategy: Any) -> None:
    """TensorFlow itself refuses int32 beside others."""

    @tf.function(autograph=False)
    def run() -> Any:
        def replica() -> Any:
            values = [tf.constant(1, tf.int32), tf.ones(3), tf.constant([2], tf.int32)]
            return tf.distribute.get_replica_context().all_reduce("SUM", values)

        return strategy.run(replica)

    replicas = strategy.num_replicas_in_sync
    for each in zip(*map(strategy.experimental_local_results, run()), strict=True):
        one, floats, two = (part.numpy().tolist() for part in each)
        assert (one, floats, two) == (replicas, [replicas] * 3, [2 * replicas])


def test_empty_tensor(strategy: Any) -> None:
    values = [tf.zeros((0, 3))] * strategy.num_replicas_in_sync
    for result in reduced(strategy, values):
        assert result.shape == (0, 3)


def test_sparse_gradients_of_different_lengths(strategy: Any) -> None:
    """IndexedSlices add up to what their dense forms add up to."""
    replicas = strategy.num_replicas_in_sync
    rng = np.random.default_rng(2)
    indices = [rng.integers(0, 6, size=r + 1) for r in range(replicas)]
    values = [rng.normal(size=(r + 1, 2)) for r in range(replicas)]
    held = strategy.experimental_distribute_values_from_function(
        lambda c: tf.constant(indices[c.replica_id_in_sync_group])
    )
    held_values = strategy.experimental_distribute_values_from_function(
        lambda c: tf.constant(values[c.replica_id_in_sync_group])
    )

    def reduce(ids: Any, rows: Any) -> Any:
        slices = tf.IndexedSlices(rows, ids, tf.constant([6, 2]))
        total = tf.distribute.get_replica_context().all_reduce("SUM", slices)
        return tf.convert_to_tensor(total)

    @tf.function
    def run(ids: Any, rows: Any) -> Any:
        return strategy.run(reduce, args=(ids, rows))

    expected = np.zeros((6, 2))
    for ids, rows in zip(indices, values, strict=True):
        np.add.at(expected, ids, rows)
    for result in strategy.experimental_local_results(run(held, held_values)):
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-14)
