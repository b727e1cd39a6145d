"""What only GPUs can show. Never run so far: no machine with two GPUs was at hand."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdp
from tests.strategies import linear
from tfdp.strategies.checksum import equal_variables, replica_checksums

pytestmark = pytest.mark.gpu
REPOSITORY = Path(__file__).parents[2]
DEADLINE_SECONDS = 180


@pytest.fixture(autouse=True)
def _has_gpus(request: pytest.FixtureRequest) -> None:
    needed = 1 if request.node.get_closest_marker("multi_process") else 2
    found = len(tf.config.list_physical_devices("GPU"))
    if found < needed:
        pytest.skip(f"needs {needed} GPU{'s' * (needed > 1)}, and TensorFlow sees {found}")


def strategy_of(name: str = "auto") -> Any:
    return tfdp.strategy("mirrored", devices=["GPU:0", "GPU:1"], cross_device_ops=name)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["nccl", "hierarchical_copy", "reduce_to_one", "ring"])
def test_sums_are_those_of_numpy(name: str, dtype: str) -> None:
    """Within (N - 1) eps sum|x| (Higham 2002, eq. 4.4), the same bits on both."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 100_003)).astype(dtype)
    strategy = strategy_of(name)
    held = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(values[context.replica_id_in_sync_group])
    )

    @tf.function(autograph=False)
    def run(held: Any) -> Any:
        return strategy.run(
            lambda own: tf.distribute.get_replica_context().all_reduce("SUM", own), args=(held,)
        )

    one, other = (part.numpy() for part in strategy.experimental_local_results(run(held)))
    exact = values.astype(np.float64).sum(axis=0)
    bound = np.finfo(dtype).eps * np.abs(values.astype(np.float64)).sum(axis=0)
    assert (np.abs(one - exact) <= bound).all()
    assert one.tobytes() == other.tobytes()


def test_auto_takes_nccl_and_every_gpu_has_its_copy() -> None:
    strategy = strategy_of()
    assert strategy.tfdp_reducer.name == "nccl"
    net = linear.model(strategy, lambda: keras.optimizers.SGD(0.125))
    copies = strategy.experimental_local_results(net.layers[0].kernel.value)
    assert [copy.device.rsplit("device:", 1)[1] for copy in copies] == ["GPU:0", "GPU:1"]


@pytest.mark.parametrize("name", ["nccl", "ring"])
def test_a_step_is_that_of_one_device(name: str) -> None:
    net = linear.model(strategy_of(name), lambda: keras.optimizers.SGD(0.125, clipnorm=1.0))
    net.fit(linear.X, linear.Y, batch_size=7, verbose=0, shuffle=False)
    gradient = linear.gradient(linear.X, linear.Y)
    gradient /= max(1.0, np.linalg.norm(gradient))
    np.testing.assert_allclose(linear.weights(net), linear.W - 0.125 * gradient, rtol=1e-6)


def test_mixed_float16_keeps_the_replicas_equal() -> None:
    strategy = strategy_of()
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        with strategy.scope():
            net = keras.Sequential(
                [keras.Input((2,)), keras.layers.Dense(64), keras.layers.Dense(1)]
            )
            net.compile(keras.optimizers.Adam(0.01), "mse")
        net.fit(linear.X, linear.Y, batch_size=7, epochs=20, verbose=0, shuffle=False)
        assert all(np.isfinite(weight).all() for weight in net.get_weights())
        one, other = replica_checksums(equal_variables(net), strategy)
        assert one == other
    finally:
        keras.config.set_dtype_policy(before)


@pytest.mark.multi_process
def test_nccl_is_refused_on_virtual_gpus() -> None:
    said = in_a_new_process(
        """
        import tensorflow as tf
        gpu = tf.config.list_physical_devices("GPU")[0]
        part = tf.config.LogicalDeviceConfiguration(memory_limit=512)
        tf.config.set_logical_device_configuration(gpu, [part, part])
        import tfdp
        print(tfdp.strategy("mirrored", devices=["GPU:0", "GPU:1"]).tfdp_reducer.name)
        try:
            tfdp.strategy("mirrored", devices=["GPU:0", "GPU:1"], cross_device_ops="nccl")
        except tfdp.errors.StrategyError as error:
            print(error)
        """
    )
    assert said.splitlines()[0] == "reduce_to_one"
    assert "these GPUs are virtual" in said


@pytest.mark.multi_process
def test_memory_that_grows_keeps_growing() -> None:
    """What the program has set before is not changed by making a strategy."""
    said = in_a_new_process(
        """
        import tensorflow as tf
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
        import tfdp
        strategy = tfdp.strategy("mirrored", devices=["GPU:0"])
        with strategy.scope():
            tf.Variable(tf.zeros(1000))
        gpu = tf.config.list_physical_devices("GPU")[0]
        print(tf.config.experimental.get_memory_growth(gpu))
        print(tf.config.experimental.get_memory_info("GPU:0")["peak"] < 2**30)
        """
    )
    assert said.split() == ["True", "True"]


def in_a_new_process(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
