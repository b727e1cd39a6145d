"""Training loops that call `strategy.run` themselves, as TensorFlow's guides write them."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdp
from tests.strategies import linear


def loop(strategy: Any, loss_of: Any, batch: int) -> np.ndarray:
    """One pass over the seven rows with SGD at rate 1/8 (exact in float32); the final weights."""
    net = linear.model(strategy, lambda: keras.optimizers.SGD(0.125))
    data = tf.data.Dataset.from_tensor_slices((linear.X, linear.Y)).batch(batch)

    def step(batch: Any) -> Any:
        x, y = batch
        with tf.GradientTape() as tape:
            loss = loss_of(y, net(x, training=True))
        gradients = tape.gradient(loss, net.trainable_variables)
        net.optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        if tf.reduce_sum(x) > 1e9:  # AutoGraph has to convert what the user wrote
            loss = -loss
        return loss

    @tf.function
    def train(batch: Any) -> Any:
        return strategy.run(step, args=(batch,))

    for batch in strategy.experimental_distribute_dataset(data):
        train(batch)
    return linear.weights(net)


def one_device(batch: int) -> np.ndarray:
    w = linear.W
    for start in range(0, 7, batch):
        part = slice(start, start + batch)
        w = w - 0.125 * linear.gradient(linear.X[part], linear.Y[part], w)
    return w


@pytest.mark.parametrize("replicas", [2, 3])
def test_losses_divided_by_the_global_batch(replicas: int) -> None:
    def compute_average_loss(y: Any, prediction: Any) -> Any:
        per_example = tf.reduce_mean(tf.square(prediction - y), axis=-1)
        return tf.nn.compute_average_loss(per_example, global_batch_size=7)

    strategy = tfdp.strategy("mirrored", devices=replicas)
    np.testing.assert_allclose(loop(strategy, compute_average_loss, 7), one_device(7), rtol=1e-12)


@pytest.mark.parametrize("batch", [7, 3, 2])
def test_keras_losses_are_exact_on_uneven_batches(batch: int) -> None:
    strategy = tfdp.strategy("mirrored", devices=3)
    loss = keras.losses.MeanSquaredError(dtype="float64")
    np.testing.assert_allclose(loop(strategy, loss, batch), one_device(batch), rtol=1e-12)


def test_a_replicas_loss_is_its_share_of_the_whole() -> None:
    strategy = tfdp.strategy("mirrored", devices=2)
    loss = keras.losses.MeanSquaredError(dtype="float64")
    data = tf.data.Dataset.from_tensor_slices((linear.X, linear.Y)).batch(7)
    batch = next(iter(strategy.experimental_distribute_dataset(data)))
    shares = strategy.run(lambda b: loss(b[1], tf.matmul(b[0], linear.W)), args=(batch,))
    whole = np.mean((linear.X @ linear.W - linear.Y) ** 2)
    np.testing.assert_allclose(strategy.reduce("SUM", shares, axis=None).numpy(), whole, rtol=1e-12)


def test_distributed_values_are_visible() -> None:
    strategy = tfdp.strategy("mirrored", devices=3)
    data = tf.data.Dataset.range(7).batch(7)
    batch = next(iter(strategy.experimental_distribute_dataset(data)))
    parts = [part.numpy().tolist() for part in strategy.experimental_local_results(batch)]
    assert parts == [[0, 1, 2], [3, 4], [5, 6]]


def test_a_users_own_distributed_dataset_of_unequal_parts_trains_exactly() -> None:
    """Replicas that read files of their own: every row weighs the same all the same."""
    strategy = tfdp.strategy("mirrored", devices=2)
    net = linear.model(strategy, lambda: keras.optimizers.SGD(0.125))
    pieces = [slice(0, 5), slice(5, 7)]

    def per_replica(context: Any) -> tf.data.Dataset:
        del context

        def generate() -> Any:
            for piece in pieces:
                yield linear.X[piece], linear.Y[piece]

        return tf.data.Dataset.from_generator(
            generate,
            output_signature=(
                tf.TensorSpec((None, 2), tf.float64),
                tf.TensorSpec((None, 1), tf.float64),
            ),
        )

    net.fit(strategy.distribute_datasets_from_function(per_replica), epochs=1, verbose=0)
    # `fit` casts the loss to floatx, and with it the replicas' shares: float32's eps is 1.2e-7.
    np.testing.assert_allclose(linear.weights(net), one_device(7), rtol=1.2e-7)


def test_counters_can_be_read_as_numbers() -> None:
    net = linear.model(tfdp.strategy("mirrored", devices=2), lambda: keras.optimizers.SGD(0.125))
    net.fit(linear.X, linear.Y, batch_size=3, verbose=0)
    assert int(net.optimizer.iterations) == 3
    assert float(net.optimizer.learning_rate) == 0.125
