"""What stock TensorFlow and Keras still do, and why each shim is needed.

Every test trains under a stock strategy in a process in which the shims are installed. So it
shows two things: stock strategies keep their behaviour, and upstream still has the fault. A test
that fails here after an upgrade says that its shim can go.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdp
from tests.strategies import linear
from tfdp.strategies.keras_compat import install

RATE = 0.125  # exact in float32, the dtype of the rate


@pytest.fixture(scope="module")
def stock() -> Any:
    install()
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def fitted(strategy: Any, optimizer: Any, rows: int, **compile_args: Any) -> np.ndarray:
    """Weights after one step on the first `rows` rows."""
    net = linear.model(strategy, optimizer, **compile_args)
    # Built on an even batch first: stock strategies cannot build on an uneven one.
    net._maybe_symbolic_build(data_batch=(linear.X[:2], linear.Y[:2]))
    net.make_train_function()
    data = tf.data.Dataset.from_tensor_slices((linear.X[:rows], linear.Y[:rows])).batch(4)
    net.train_function(iter(strategy.experimental_distribute_dataset(data)))
    return linear.weights(net)


def sgd(**arguments: Any) -> Any:
    return lambda: keras.optimizers.SGD(RATE, **arguments)


def test_losses_uneven_batch_is_the_mean_of_the_replicas_means(stock: Any) -> None:
    parts = [
        linear.gradient(linear.X[:2], linear.Y[:2]),
        linear.gradient(linear.X[2:3], linear.Y[2:3]),
    ]
    np.testing.assert_allclose(fitted(stock, sgd(), 3), linear.W - RATE * np.mean(parts, axis=0))


def test_optimizers_clip_before_the_reduction(stock: Any) -> None:
    def clipped(part: slice) -> np.ndarray:
        gradient = linear.gradient(linear.X[part], linear.Y[part]) / 2
        return gradient * min(1.0, 0.5 / np.linalg.norm(gradient))

    expected = linear.W - RATE * (clipped(slice(0, 2)) + clipped(slice(2, 4)))
    np.testing.assert_allclose(fitted(stock, sgd(clipnorm=0.5), 4), expected)


def test_optimizers_cannot_accumulate(stock: Any) -> None:
    with pytest.raises(RuntimeError, match="merge_call"):
        fitted(stock, sgd(gradient_accumulation_steps=2), 4)


def test_optimizers_cannot_overwrite_with_the_average(stock: Any) -> None:
    with pytest.raises(RuntimeError, match="merge_call"):
        fitted(stock, sgd(use_ema=True, ema_overwrite_frequency=2), 4)


def test_trainer_builds_on_a_mean_of_uneven_parts(stock: Any) -> None:
    net = linear.model(stock, sgd())
    with pytest.raises(tf.errors.InvalidArgumentError, match="AddN"):
        net.fit(linear.X[:3], linear.Y[:3], verbose=0)


def test_trainer_gives_every_replica_the_whole_batch_of_predict_on_batch(stock: Any) -> None:
    net = linear.model(stock, sgd())
    assert len(net.predict_on_batch(linear.X)) == 2 * len(linear.X)


def test_trainer_logs_a_mean_of_running_means(stock: Any) -> None:
    """`own_loss` of 2 + 1 rows: the mean of two means is not that of the three rows."""
    net = linear.model(stock, sgd(), loss="mse", metrics=["mae"])
    net._maybe_symbolic_build(data_batch=(linear.X[:2], linear.Y[:2]))
    net.make_test_function()
    data = tf.data.Dataset.from_tensor_slices((linear.X[:3], linear.Y[:3])).batch(4)
    logs = net.test_function(iter(stock.experimental_distribute_dataset(data)))
    errors = np.abs(linear.X[:3] @ linear.W - linear.Y[:3])
    np.testing.assert_allclose(logs["mae"], (errors[:2].mean() + errors[2:].mean()) / 2)


def test_trainer_on_one_device_does_half_a_step_where_the_data_end() -> None:
    """Why the next batch is taken outside the graph of the step."""
    net = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    net.compile(keras.optimizers.SGD(RATE), "mse")
    data = (
        tf.data.Dataset.from_tensor_slices((linear.X, linear.Y)).filter(lambda x, y: True).batch(7)
    )
    net.fit(data, epochs=1, verbose=0)
    assert int(net.optimizer.iterations.numpy()) == 2  # of one batch


def test_layers_draw_one_mask_for_all_replicas(stock: Any) -> None:
    with stock.scope():
        generator = keras.random.SeedGenerator(1)
    drawn = stock.run(lambda: keras.random.uniform((8,), seed=generator))
    first, second = (value.numpy() for value in stock.experimental_local_results(drawn))
    np.testing.assert_array_equal(first, second)


def test_batch_norm_of_an_empty_replica_is_nan(stock: Any) -> None:
    with stock.scope():
        net = keras.Sequential([keras.Input((2,)), keras.layers.BatchNormalization()])
        net.compile(keras.optimizers.SGD(RATE), "mse")
    net._maybe_symbolic_build(data_batch=(linear.X[:2], linear.X[:2]))
    net.make_train_function()
    data = tf.data.Dataset.from_tensor_slices((linear.X[:1], linear.X[:1])).batch(2)
    net.train_function(iter(stock.experimental_distribute_dataset(data)))
    copies = [copy.numpy() for copy in net.layers[0].moving_mean.value.values]
    assert any(np.isnan(copy).any() for copy in copies)


def test_a_stock_strategy_is_not_changed_by_one_of_ours_beside_it(stock: Any) -> None:
    before = fitted(stock, sgd(clipnorm=0.5), 3)
    ours = tfdp.strategy("mirrored", devices=2)
    linear.model(ours, sgd(clipnorm=0.5)).fit(linear.X, linear.Y, verbose=0)
    np.testing.assert_array_equal(fitted(stock, sgd(clipnorm=0.5), 3), before)


def test_hierarchical_copy_of_an_odd_number_of_devices_leaves_the_last_one_out() -> None:
    """Why `hierarchical_copy` is refused there."""
    strategy = tf.distribute.MirroredStrategy(
        ["CPU:0", "CPU:1", "CPU:2"], tf.distribute.HierarchicalCopyAllReduce()
    )
    held = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant([1.0, 1.0])
    )

    @tf.function
    def total(values: Any) -> Any:
        return strategy.run(
            lambda v: tf.distribute.get_replica_context().all_reduce("SUM", [v, v]), args=(values,)
        )

    sums = strategy.experimental_local_results(total(held))[0]
    assert [value.numpy().tolist() for value in sums] == [[2.0, 2.0], [2.0, 2.0]]


class _Crash(keras.callbacks.Callback):
    """Ends `fit` after some batches, and notes whether it hears of that."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self._left = batches
        self.heard = False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._left -= 1
        if self._left == 0:
            raise KeyError("the end")

    def on_train_end(self, logs: Any = None) -> None:
        self.heard = True


def test_fit_loop_takes_the_steps_of_an_interrupted_epoch_again(tmp_path: Path) -> None:
    """Two epochs of four steps, ended after six and gone on: eight updates, and stock makes ten."""
    install()
    data = tf.data.Dataset.from_tensor_slices((linear.X, linear.Y)).batch(1).take(4)

    def model() -> keras.Model:
        keras.utils.clear_session()
        net = keras.Sequential([keras.Input(linear.X.shape[1:]), keras.layers.Dense(1)])
        net.compile("sgd", "mse")
        return net

    def keep() -> keras.callbacks.Callback:
        return keras.callbacks.BackupAndRestore(str(tmp_path), save_freq=1)

    with pytest.raises(KeyError):
        model().fit(data, epochs=2, verbose=0, callbacks=[keep(), _Crash(6)])
    second = model()
    second.fit(data, epochs=2, verbose=0, callbacks=[keep()])
    assert int(second.optimizer.iterations) > 8


def test_fit_loop_tells_no_callback_that_fit_has_raised() -> None:
    install()
    net = keras.Sequential([keras.Input(linear.X.shape[1:]), keras.layers.Dense(1)])
    net.compile("sgd", "mse")
    crash = _Crash(1)
    with pytest.raises(KeyError):
        net.fit(linear.X, linear.Y, verbose=0, callbacks=[crash])
    assert not crash.heard


def test_fit_loop_gives_no_callback_the_others() -> None:
    callback = keras.callbacks.Callback()
    callbacks = keras.callbacks.CallbackList([callback, keras.callbacks.History()])
    assert not [value for value in vars(callback).values() if value is callbacks]
