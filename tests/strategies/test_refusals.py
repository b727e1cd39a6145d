"""What cannot be exact is refused before it runs, with the reason and the way out."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdp
from tests.strategies import linear
from tfdp.errors import DataError, UnsupportedError
from tfdp.strategies.keras_compat import optimizers


@pytest.fixture(scope="module")
def strategy() -> Any:
    return tfdp.strategy("mirrored", devices=2)


def test_jit_compile(strategy: Any) -> None:
    net = linear.model(strategy, lambda: keras.optimizers.SGD(0.125), jit_compile=True)
    for use in (
        lambda: net.fit(linear.X, linear.Y, verbose=0),
        lambda: net.predict(linear.X, verbose=0),
    ):
        with pytest.raises(UnsupportedError, match="jit_compile=False"):
            use()


def test_jit_compile_on_one_replica_runs() -> None:
    net = linear.model(
        tfdp.strategy("single"), lambda: keras.optimizers.SGD(0.125), jit_compile=True
    )
    net.fit(linear.X, linear.Y, batch_size=7, verbose=0)
    expected = linear.W - 0.125 * linear.gradient(linear.X, linear.Y)
    np.testing.assert_allclose(linear.weights(net), expected, rtol=1e-12)


def test_stateful_layers(strategy: Any) -> None:
    with strategy.scope():
        net = keras.Sequential(
            [keras.Input(batch_shape=(4, 3, 2)), keras.layers.LSTM(2, stateful=True, name="memory")]
        )
        net.compile("sgd", "mse")
    with pytest.raises(UnsupportedError, match="'memory' is stateful"):
        net.fit(np.zeros((4, 3, 2)), np.zeros((4, 2)), verbose=0)


def test_fixed_batch_size(strategy: Any) -> None:
    with strategy.scope():
        net = keras.Sequential([keras.Input((2,), batch_size=4), keras.layers.Dense(1)])
        net.compile("sgd", "mse")
    with pytest.raises(UnsupportedError, match="fixed batch size 4"):
        net.fit(np.zeros((4, 2)), np.zeros((4, 1)), batch_size=4, verbose=0)


def test_variables_overwritten_with_their_gradient(strategy: Any) -> None:
    net = linear.model(strategy, lambda: keras.optimizers.SGD(0.1))
    net.layers[0].kernel.overwrite_with_gradient = True
    with pytest.raises(UnsupportedError, match="float8"):
        net.fit(linear.X, linear.Y, verbose=0)


def test_data_that_are_not_batched(strategy: Any) -> None:
    net = linear.model(strategy, lambda: keras.optimizers.SGD(0.1))
    rows = tf.data.Dataset.from_tensor_slices((np.zeros(4), np.zeros(4)))
    with pytest.raises(DataError, match="no rows to share out"):
        net.fit(rows, verbose=0)


def test_an_optimizer_made_outside_the_scope(strategy: Any) -> None:
    net = linear.model(strategy, lambda: keras.optimizers.SGD(0.1))
    net.compile("sgd", "mse")
    with pytest.raises(UnsupportedError, match=r"inside `with strategy\.scope"):
        net.fit(linear.X, linear.Y, verbose=0)


def test_a_model_built_outside_the_scope_and_compiled_inside(strategy: Any) -> None:
    net = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with strategy.scope():
        net.compile(keras.optimizers.SGD(0.1), "mse")
    with pytest.raises(UnsupportedError, match="built outside the strategy's scope"):
        net.fit(linear.X, linear.Y, verbose=0)


def test_components_with_different_numbers_of_rows(strategy: Any) -> None:
    net = linear.model(strategy, lambda: keras.optimizers.SGD(0.1))
    data = tf.data.Dataset.from_tensors((linear.X, linear.Y[:6]))
    with pytest.raises(DataError, match="7, 6 rows"):
        net.fit(data, verbose=0)


def test_an_own_loss_without_a_loss_object_is_explained_once(
    strategy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    optimizers._say_how_own_losses_count.cache_clear()

    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x: Any) -> Any:
            return self.dense(x)

        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                loss = keras.ops.mean(keras.ops.square(self(x) - y))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply(gradients, self.trainable_variables)
            return {"loss": loss}

    with strategy.scope():
        net = Own()
        net.compile("sgd", "mse")
    with caplog.at_level("WARNING", logger="tfdp"):
        net.fit(linear.X, linear.Y, epochs=2, verbose=0)
    said = [record.message for record in caplog.records if "mean over the rows" in record.message]
    assert len(said) == 1
