"""TensorFlow's own MultiWorkerMirroredStrategy, whose `fit` Keras 3 does not support: a loop.

The loop is that of TensorFlow's guide, "Custom training loop with Keras and
MultiWorkerMirroredStrategy": a sum of losses divided by the global batch, gradients that the
optimizer sums, default communication options (RING, all gradients in one pack).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfdp.bench.peers.feed import LEARNING_RATE, batches
from tfdp.bench.peers.models import build, loss_of
from tfdp.bench.peers.turns import seconds_of


class StockSubject:
    """One worker.

    Args:
      job: see `tf_program`. With "model" and "global_batch" it trains, without it reduces.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        implementation = tf.distribute.experimental.CommunicationImplementation.RING
        self._strategy = tf.distribute.MultiWorkerMirroredStrategy(
            communication_options=tf.distribute.experimental.CommunicationOptions(
                implementation=implementation
            )
        )
        self._reductions: dict[int, Callable[[], None]] = {}
        if "model" in job:
            self._step = self._make_step(job["model"], job["global_batch"])
            seconds_of(self._step, 3)

    def take(self, what: str, count: int, size: int = 0) -> list[float]:
        """Seconds of `count` steps, or sums of `size` bytes."""
        if what == "steps":
            return seconds_of(self._step, count)
        if size not in self._reductions:
            self._reductions.clear()
            self._reductions[size] = self._reduction(size)
            seconds_of(self._reductions[size], 2)
        return seconds_of(self._reductions[size], count)

    def _make_step(self, name: str, global_batch: int) -> Callable[[], Any]:
        strategy = self._strategy
        keras.utils.set_random_seed(1)
        with strategy.scope():
            model = build(name)
            optimizer = keras.optimizers.SGD(LEARNING_RATE)
            optimizer.build(model.trainable_variables)
            loss_function = loss_of(name)
            loss_function.reduction = "sum"
        dataset = batches(name, global_batch)
        options = tf.data.Options()
        policy = tf.data.experimental.AutoShardPolicy.DATA
        options.experimental_distribute.auto_shard_policy = policy
        iterator = iter(strategy.experimental_distribute_dataset(dataset.with_options(options)))

        def train(inputs: Any, labels: Any) -> Any:
            with tf.GradientTape() as tape:
                outputs = model(inputs, training=True)
                # Keras divides by the replicas where a strategy is in scope.
                loss = loss_function(labels, outputs) / global_batch
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        @tf.function(autograph=False)
        def step(inputs: Any, labels: Any) -> Any:
            losses = strategy.run(train, args=(inputs, labels))
            return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

        return lambda: step(*next(iterator)).numpy()

    def _reduction(self, size: int) -> Callable[[], None]:
        strategy = self._strategy

        def reduce(value: Any) -> Any:
            context = tf.distribute.get_replica_context()
            return context.all_reduce(tf.distribute.ReduceOp.SUM, value)[0]

        held = strategy.run(tf.function(lambda: tf.ones([size // 4])))
        run = tf.function(lambda: strategy.run(reduce, args=(held,)), autograph=False)
        return lambda: [each.numpy() for each in strategy.experimental_local_results(run())]  # type: ignore[return-value]
