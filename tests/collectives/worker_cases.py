"""What each worker of the collectives' tests runs, and the values that it contributes.

The values follow from the replica's number alone, so that the test can write the answer down.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import Any

import keras
import ml_dtypes
import numpy as np
import tensorflow as tf

import tfdp
from tfdp.cluster.tf_config import read_tf_config
from tfdp.collectives.between_workers import WorkerReduction
from tfdp.collectives.collective import CollectiveReduction
from tfdp.collectives.compression import Rounded
from tfdp.strategies.step import current_step

DTYPES = ("float16", "bfloat16", "float32", "float64", "int32", "int64")
SHAPES = ((), (1,), (7,), (3, 5), (0, 3), (64, 1025))
LARGE = (1_200_000, 700_001, 900_000)  # elements: 2.7 buckets of 4 MiB in float32
ROUNDING = 10_007
ROWS = 6


def numpy_dtype(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def small(dtype: str, replica: int) -> list[np.ndarray]:
    """Integers below 8, whose sums are exact in every dtype."""
    rng = np.random.default_rng([1, replica])
    return [rng.integers(-8, 8, size=shape).astype(numpy_dtype(dtype)) for shape in SHAPES]


def rounded(dtype: str, replica: int) -> np.ndarray:
    rng = np.random.default_rng([2, replica])
    return rng.normal(size=ROUNDING).astype(numpy_dtype(dtype))


def large(replica: int) -> list[np.ndarray]:
    rng = np.random.default_rng([3, replica])
    return [rng.integers(-99, 99, size=size).astype(np.float32) for size in LARGE]


def slices(replica: int) -> tuple[np.ndarray, np.ndarray]:
    """`replica` indices into 6 rows, none on replica 0, and the rows of 2."""
    rng = np.random.default_rng([4, replica])
    return rng.integers(0, ROWS, size=replica), rng.integers(-9, 9, size=(replica, 2)) * 0.5


def contract(name: str, devices: int, compression: str = "none") -> dict[str, Any]:
    """Every case through a strategy; each result is a list with one entry a local replica."""
    strategy: Any = tfdp.strategy(
        "multi_worker", devices=devices, cross_device_ops=name, compression=compression
    )
    results: dict[str, Any] = {"replicas": strategy.num_replicas_in_sync}
    for dtype in DTYPES:
        results[f"sum {dtype}"] = _reduced(strategy, lambda r, d=dtype: small(d, r))
    for dtype in DTYPES[:4]:
        results[f"rounding {dtype}"] = _reduced(strategy, lambda r, d=dtype: [rounded(d, r)])
    results["mean"] = _reduced(strategy, lambda r: [np.array([r, 2.0])], "MEAN")
    results["large"] = [
        [int(np.sum(each)) for each in parts] + [each[-3:] for each in parts]
        for parts in _reduced(strategy, large)
    ]
    results["slices"] = _slices(strategy)
    results["refused"] = _refusal_in_a_branch(strategy)
    results["gradients"] = _reduced(
        strategy, lambda r: [rounded("float32", r), rounded("float64", r)], gradients=True
    )
    results["integer gradients"] = _reduced(
        strategy, lambda r: [small("int32", r)[2] + 70_001], gradients=True
    )
    results["slices of gradients"] = _slices(strategy, gradients=True)
    results["fit"] = fit(strategy)
    results["reductions"] = reductions_of_a_step(strategy)
    return results


def reductions_of_a_step(strategy: Any) -> int:
    """How many there are in the graph of a step of `fit`, with a metric, on uneven batches."""
    with strategy.scope():
        net = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3), keras.layers.Dense(1)])
        net.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
    net.evaluate(np.zeros((9, 2)), np.zeros((9, 1)), verbose=0)  # makes the metrics' variables
    net.optimizer.build(net.trainable_variables)
    net.make_train_function()

    @tf.function(autograph=False)
    def step(x: Any, y: Any) -> Any:
        return strategy.tfdp_run(net.train_step, ((x, y),), managed=True)

    spec = tf.TensorSpec((None, 2), keras.config.floatx())
    graph = step.get_concrete_function(spec, tf.TensorSpec((None, 1), spec.dtype)).graph
    kinds = [operation.type for operation in graph.get_operations()]
    return kinds.count("CollectiveReduceV2") + kinds.count("PyFunc") + kinds.count("EagerPyFunc")


def two_level(devices: int, compression: str = "none") -> dict[str, Any]:
    """The contract, and the reduction between the workers by itself."""
    results = contract("two_level", devices, compression)
    cluster = read_tf_config(os.environ)
    assert cluster is not None
    made = CollectiveReduction(len(cluster.workers), group_key=77)
    results["reduction"] = reduction(made, cluster.index)
    results["kept"] = kept(made, cluster.index)
    return results


def fit(strategy: Any = None) -> list[np.ndarray]:
    """The loss before, and the weights after two epochs in float64.

    With sparse gradients, an uneven last batch and clipping.
    """
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 7, size=(27, 2)), rng.normal(size=(27, 1))
    scope = contextlib.nullcontext() if strategy is None else strategy.scope()
    floatx, policy = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")  # an earlier layer may have fixed another one
    try:
        with scope:
            keras.utils.set_random_seed(6)
            net = keras.Sequential(
                [
                    keras.Input((2,), dtype="int32"),
                    keras.layers.Embedding(7, 3),
                    keras.layers.Flatten(),
                    keras.layers.Dense(1),
                ]
            )
            net.compile(keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.5), "mse")
        before = net.evaluate(x, y, batch_size=10, verbose=0)
        net.fit(x, y, batch_size=10, epochs=2, shuffle=False, verbose=0)
        return [np.float64(before), *net.get_weights()]
    finally:
        keras.config.set_floatx(floatx)
        keras.config.set_dtype_policy(policy)


def kept(made: WorkerReduction, rank: int) -> dict[str, Any]:
    """What `Rounded` leaves alone: all where the condition does not hold, and integers."""
    rounding = Rounded(made, tf.bfloat16)
    mine = tf.constant([1 / 3, 1e-5 * (rank + 1)])

    @tf.function
    def run(when: Any) -> Any:
        return (
            rounding.sum(mine, when),
            rounding.sum(tf.constant([257, 70001])),
            rounding.gather(tf.constant([257 + rank])),
        )

    not_when, integers, gathered = run(tf.constant(False))
    return {
        "mine": mine.numpy(),
        "not when": not_when.numpy(),
        "when": run(tf.constant(True))[0].numpy(),
        "integers": integers.numpy(),
        "gathered": gathered.numpy(),
    }


def several(rank: int) -> list[tf.Tensor]:
    """Vectors of one dtype, one of them empty, one of more than a piece of shared memory."""
    rng = np.random.default_rng([5, rank])
    sizes = (3, 0, 400_000, 1)
    return [tf.constant(rng.integers(-99, 99, size).astype(np.float32)) for size in sizes]


def _reduced(
    strategy: Any, values: Any, op: str = "SUM", *, gradients: bool = False
) -> list[list[np.ndarray]]:
    """What each local replica gets, in float64 (exact for all values here), in a graph."""
    count = len(values(0))
    held = [
        strategy.experimental_distribute_values_from_function(
            lambda context, i=i: tf.constant(values(context.replica_id_in_sync_group)[i])
        )
        for i in range(count)
    ]

    def reduce(*value: Any) -> Any:
        step = current_step()
        if gradients:
            return step.sum_gradients(list(value))
        return tf.distribute.get_replica_context().all_reduce(op, list(value))

    @tf.function
    def run(held: Any) -> Any:
        return strategy.run(reduce, args=tuple(held))

    first, again = (_float64(strategy, run(held)) for _ in range(2))
    for one, other in zip(itertools.chain(*first), itertools.chain(*again), strict=True):
        assert one.tobytes() == other.tobytes(), "a second run gives other bits"
    return first


def _float64(strategy: Any, reduced: Any) -> list[list[np.ndarray]]:
    parts = [strategy.experimental_local_results(each) for each in reduced]
    replicas = range(len(parts[0]))
    return [[np.asarray(each[r].numpy()).astype(np.float64) for each in parts] for r in replicas]


def _slices(strategy: Any, *, gradients: bool = False) -> list[np.ndarray]:
    ids, rows = (
        strategy.experimental_distribute_values_from_function(
            lambda context, part=part: tf.constant(slices(context.replica_id_in_sync_group)[part])
        )
        for part in (0, 1)
    )

    def reduce(ids: Any, rows: Any) -> Any:
        own = tf.IndexedSlices(rows, ids, tf.constant([ROWS, 2]))
        if gradients:
            (total,) = current_step().sum_gradients([own])
        else:
            total = tf.distribute.get_replica_context().all_reduce("SUM", own)
        assert isinstance(total, tf.IndexedSlices)
        return tf.convert_to_tensor(total)

    total = tf.function(lambda a, b: strategy.run(reduce, args=(a, b)))(ids, rows)
    return [each.numpy() for each in strategy.experimental_local_results(total)]


def _refusal_in_a_branch(strategy: Any) -> str:
    def reduce() -> Any:
        context = tf.distribute.get_replica_context()
        return tf.cond(
            tf.random.uniform(()) < 2.0,
            lambda: context.all_reduce("SUM", tf.constant(1.0)),
            lambda: tf.constant(0.0),
        )

    try:
        tf.function(lambda: strategy.run(reduce), autograph=False)()
    except tfdp.errors.UnsupportedError as error:
        return str(error)
    return ""


def reduction(made: WorkerReduction, rank: int) -> dict[str, Any]:
    """The cases that only a `WorkerReduction` itself can show, each by two workers."""
    mine = tf.constant([1.5, 2.5]) * (rank + 1)

    @tf.function
    def sum_when(when: Any) -> Any:
        return made.sum(mine, when)

    @tf.function
    def gathered() -> Any:
        flags = tf.constant([True] * (rank + 1) + [False])
        rows = tf.ones((2 * rank, 3), tf.int32) * tf.constant([[rank, 8, 9]])
        halves = tf.fill((1 + rank,), tf.constant(rank + 0.5, tf.bfloat16))
        return made.gather(flags), made.gather(rows), tf.cast(made.gather(halves), tf.float32)

    results = {
        "rank": made.rank,
        "when": sum_when(tf.constant(True)).numpy(),
        "not when": sum_when(tf.constant(False)).numpy(),
        "empty": made.sum(tf.zeros(0)).numpy(),
        "empty gather": made.gather(tf.zeros((0, 2))).numpy(),
        "eager": made.sum(mine).numpy(),
        "eager gather": made.gather(mine[: rank + 1]).numpy(),
        "gathered": [each.numpy() for each in gathered()],
    }
    return results
