"""The iterators that give replicas their rows."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

import tfdp
from tfdp.strategies.keras_compat import iterators


@pytest.fixture
def arguments(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    """What TensorFlow passes, with a plain data set for the generator of a device."""
    from tensorflow.python.data.ops import multi_device_iterator_ops

    monkeypatch.setattr(
        multi_device_iterator_ops,
        "_ReincarnatedPerDeviceGenerator",
        lambda dataset, number: dataset,
    )
    return tf.data.Dataset.range(3), tf.constant(0), 1, False


def test_autotune_is_off_and_the_elements_are_the_same(arguments: tuple[Any, ...]) -> None:
    dataset = iterators.create_device_dataset(*arguments)
    assert dataset.options().autotune.enabled is False
    assert [int(element) for element in dataset] == [0, 1, 2]


def test_upstream_leaves_it_on(arguments: tuple[Any, ...]) -> None:
    """When this fails, TensorFlow no longer needs the shim."""
    assert iterators._stock_create(*arguments).options().autotune.enabled is None


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the pipelines that are made on devices."""
    from tensorflow.python.data.ops import multi_device_iterator_ops

    made: list[int] = []
    generator = multi_device_iterator_ops._PerDeviceGenerator
    stock = generator.__init__

    def init(self: Any, number: int, *args: Any, **kwargs: Any) -> None:
        made.append(number)
        stock(self, number, *args, **kwargs)

    monkeypatch.setattr(generator, "__init__", init)
    return made


@pytest.mark.parametrize("replicas", [1, 3])
def test_nothing_is_carried_to_replicas_on_the_host(carried: list[int], replicas: int) -> None:
    strategy = tfdp.strategy("mirrored" if replicas > 1 else "single", devices=replicas)
    batches = tf.data.Dataset.range(10).batch(4)
    distributed = strategy.experimental_distribute_dataset(batches)
    for _ in range(2):
        seen = [
            [part.numpy().tolist() for part in strategy.experimental_local_results(batch)]
            for batch in distributed
        ]
        if replicas == 1:
            assert seen == [[[0, 1, 2, 3]], [[4, 5, 6, 7]], [[8, 9]]]
        else:
            assert seen == [[[0, 1], [2], [3]], [[4, 5], [6], [7]], [[8], [9], []]]
    assert carried == []


def test_two_passes_at_once_do_not_share_elements() -> None:
    strategy = tfdp.strategy("mirrored", devices=2)
    distributed = strategy.experimental_distribute_dataset(tf.data.Dataset.range(8).batch(2))
    one, other = iter(distributed), iter(distributed)
    firsts = [strategy.experimental_local_results(next(each)) for each in (one, one, other)]
    assert [[int(part[0]) for part in parts] for parts in firsts] == [[0, 1], [2, 3], [0, 1]]


def test_what_a_user_asks_for_is_left_to_tensorflow(carried: list[int]) -> None:
    strategy = tfdp.strategy("mirrored", devices=2)
    options = tf.distribute.InputOptions(experimental_per_replica_buffer_size=2)
    batches = tf.data.Dataset.range(4).batch(2)
    distributed = strategy.experimental_distribute_dataset(batches, options)
    parts = [strategy.experimental_local_results(batch) for batch in distributed]
    assert [[int(part[0]) for part in each] for each in parts] == [[0, 1], [2, 3]]
    assert carried == [0, 1]


def test_upstream_carries_to_the_host_too(carried: list[int]) -> None:
    """When this fails, TensorFlow no longer needs the shim."""
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    distributed = strategy.experimental_distribute_dataset(tf.data.Dataset.range(4).batch(2))
    assert len(list(distributed)) == 2
    assert carried == [0, 1]
