"""Work is shared out before it is done: every example once, for any number of workers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdp
from tests.data.streams import NumberStream
from tfdp.data.arrays import Arrays
from tfdp.data.batches import EpochBatches
from tfdp.data.order import example_seeds
from tfdp.data.policy import choose_policy
from tfdp.data.sources.arrays import ArraySource
from tfdp.data.sources.base import Source
from tfdp.errors import DataError


def numbered(rows: int = 37) -> ArraySource:
    return ArraySource(Arrays(np.arange(rows, dtype=np.float32)[:, None], np.arange(rows)))


def stream(rows: int = 37) -> NumberStream:
    return NumberStream([16, 4, 0, rows - 20])


SOURCES = [numbered, stream]


def whole(batches: EpochBatches) -> list[list[int]]:
    return [y.tolist() for _, y, *_ in batches.dataset.as_numpy_iterator()]


def reassembled(batches: EpochBatches, workers: int, replicas: int) -> list[list[int]]:
    """The global batches, put together from what the replicas of all workers get."""
    workload = batches.dataset.tfdp_workload
    parts = []
    for worker in range(workers):
        pieces = [y for _, y, *_ in workload.share(worker, workers, replicas).as_numpy_iterator()]
        assert len(pieces) % replicas == 0
        parts.append([pieces[i : i + replicas] for i in range(0, len(pieces), replicas)])
    return [
        np.concatenate([part[replica] for replica in range(replicas) for part in step]).tolist()
        for step in zip(*parts, strict=True)
    ]


@pytest.mark.parametrize("make", SOURCES)
@pytest.mark.parametrize("remainder", ["exact", "drop", "pad"])
def test_pieces_of_any_number_of_replicas_are_the_same_batches(make: Any, remainder: str) -> None:
    batches = EpochBatches(make(), global_batch=7, seed=3, shuffle_buffer=11, remainder=remainder)
    batches.set_epoch(2)
    expected = whole(batches)
    rows = sorted(row for batch in expected for row in batch)
    if remainder == "exact":
        assert rows == list(range(37))
    elif remainder == "drop":
        assert len(set(rows)) == len(rows) == 35
    else:
        assert set(rows) == set(range(37))
        assert len(rows) == 42
    for workers, replicas in [(1, 5), (2, 2), (4, 1)] if remainder == "exact" else [(3, 1)]:
        assert reassembled(batches, workers, replicas) == expected


@pytest.mark.parametrize("make", SOURCES)
@pytest.mark.parametrize("steps", [None, 4, 9])
def test_a_position_repeats_and_skips_nothing(make: Any, steps: int | None) -> None:
    batches = EpochBatches(make(), global_batch=7, seed=1, steps=steps, shuffle_buffer=5)
    for epoch in (0, 3):
        batches.set_position(epoch, 0)
        expected = whole(batches)
        assert len(expected) == (steps or 6)
        for step in (1, 3, len(expected)):
            batches.set_position(epoch, step)
            assert whole(batches) == expected[step:]
    batches.set_position(3, 2)
    assert reassembled(batches, 2, 2) == expected[2:]
    batches.set_position(3, 2)
    batches.set_epoch(3)  # as a callback does when the epoch begins
    assert whole(batches) == expected[2:]
    batches.set_epoch(4)
    assert len(whole(batches)) == (steps or 6)


@pytest.mark.parametrize("make", SOURCES)
def test_the_order_is_that_of_seed_and_epoch(make: Any) -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        batches = EpochBatches(make(), global_batch=7, seed=seed)
        batches.set_epoch(epoch)
        return whole(batches)

    assert order(1, 2) == order(1, 2)
    assert order(1, 2) != order(1, 3) != order(2, 3)
    unshuffled = EpochBatches(make(), global_batch=7, shuffle=False)
    assert [row for batch in whole(unshuffled) for row in batch] == list(range(37))


@pytest.mark.parametrize("make", SOURCES)
def test_padding_weighs_nothing_and_keeps_the_mean(make: Any) -> None:
    batches = EpochBatches(make(), global_batch=7, shuffle=False, remainder="pad")
    assert batches.dataset.element_spec[1].shape == (7,) or make is stream
    *_, (x, y, weight) = batches.dataset.as_numpy_iterator()
    assert len(x) == len(y) == len(weight) == 7
    np.testing.assert_allclose(np.mean(weight * y), np.mean([35, 36]), rtol=1e-6)
    assert np.count_nonzero(weight) == 2


def test_padding_keeps_the_weights_of_the_rows() -> None:
    arrays = Arrays(np.zeros((3, 1)), np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 5.0]))
    batches = EpochBatches(arrays, global_batch=2, shuffle=False, remainder="pad")
    *_, (_, _, weight) = batches.dataset.as_numpy_iterator()
    assert weight.tolist() == [10, 0]


def test_dropping_everything_is_refused() -> None:
    with pytest.raises(DataError, match="drop leaves nothing of 37 examples"):
        EpochBatches(numbered(), global_batch=38, remainder="drop")


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_own_files_come_once_each(workers: int) -> None:
    batches = EpochBatches(stream(), global_batch=7, seed=3, shard="file")
    assert batches.steps is None
    workload = batches.dataset.tfdp_workload
    found: list[int] = []
    for worker in range(workers):
        for _, y in workload.share(worker, workers, 1).as_numpy_iterator():
            assert 0 < len(y) <= -(-7 // workers)
            found += y.tolist()
    assert sorted(found) == list(range(37))


def test_policies_say_why() -> None:
    assert choose_policy(numbered()).name == "data"
    assert "any order" in choose_policy(numbered()).reason
    assert choose_policy(stream()).name == "data"
    assert "all 4 files" in choose_policy(stream()).reason
    assert choose_policy(stream(), "file").own
    assert choose_policy(numbered(), "off").own
    with pytest.raises(DataError, match="not files that are read from front to back"):
        choose_policy(numbered(), "file")


@pytest.mark.parametrize("make", SOURCES)
def test_a_transform_differs_by_example_and_not_by_replica(make: Any) -> None:
    def noisy(x: tf.Tensor, y: tf.Tensor, seed: tf.Tensor) -> Any:
        return tf.random.stateless_uniform([1], seed=seed) + 0 * x, y

    batches = EpochBatches(make(), global_batch=7, seed=3, transform=noisy)

    def drawn(datasets: list[tf.data.Dataset]) -> dict[int, float]:
        return {
            int(row): float(value[0])
            for dataset in datasets
            for x, y in dataset.as_numpy_iterator()
            for value, row in zip(x, y, strict=True)
        }

    workload = batches.dataset.tfdp_workload
    expected = drawn([batches.dataset])
    assert len(set(expected.values())) == 37
    assert drawn([workload.share(worker, 2, 2) for worker in range(2)]) == expected
    batches.set_epoch(1)
    assert not set(drawn([batches.dataset]).values()) & set(expected.values())


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (
            lambda x, y, seed: (x[0], y),
            r"turned float32 of shape \(1,\) into float32 of shape \(\)",
        ),
        (lambda x, y, seed: (x, tf.cast(y, tf.float32)), "turned int64 .* into float32"),
        (lambda x, y, seed: x, "not .x, y. as it was given"),
        (lambda x, y, seed: (x / 0 if seed else 1 / 0, y), "raised .*Error"),
    ],
)
def test_refuses_transforms(transform: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"data.transform: .*lambda.* {message}"):
        EpochBatches(numbered(), global_batch=7, transform=transform)


def test_seeds_are_those_of_splitmix64() -> None:
    mask = 2**64 - 1

    def mix(value: int) -> int:
        value = (value + 0x9E3779B97F4A7C15) & mask
        value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & mask
        value = ((value ^ value >> 27) * 0x94D049BB133111EB) & mask
        return value ^ value >> 31

    found = example_seeds(5, tf.constant(2, tf.int64), tf.range(3, dtype=tf.int64)).numpy()
    expected = [mix((number + mix(2 + 5)) & mask) for number in range(3)]
    assert found.view(np.uint32).astype(object).tolist() == [
        [value & 0xFFFFFFFF, value >> 32] for value in expected
    ]


def weights(strategy: Any, make: Any, remainder: str = "exact") -> list[np.ndarray]:
    keras.utils.set_random_seed(1)
    with strategy.scope():
        net = keras.Sequential(
            [keras.Input((1,)), keras.layers.Rescaling(0.03), keras.layers.Dense(3, "tanh"),
             keras.layers.Dense(1)]
        )  # fmt: skip
        net.compile(keras.optimizers.SGD(0.001), "mse")
    batches = EpochBatches(make(), global_batch=7, seed=3, remainder=remainder)
    order = keras.callbacks.LambdaCallback(on_epoch_begin=lambda e, logs: batches.set_epoch(e))
    net.fit(batches.dataset, epochs=3, callbacks=[order], shuffle=False, verbose=0)
    assert int(net.optimizer.iterations) == 18
    return net.get_weights()


def test_three_replicas_train_what_one_device_trains() -> None:
    one = weights(tfdp.strategy("single"), numbered)
    three = tfdp.strategy("mirrored", devices=3)
    for remainder in ("exact", "pad"):
        for expected, found in zip(one, weights(three, numbered, remainder), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_only_the_own_examples_are_read() -> None:
    """Two workers together read each row once, not each of them every row."""
    seen: list[int] = []

    class Counting(ArraySource):
        def read(self, tickets: Any) -> Any:
            at = tf.numpy_function(
                lambda at: (seen.extend(at.tolist()), at)[1], [tickets["at"]], tf.int64
            )
            at.set_shape(tickets["at"].shape)
            return super().read({**tickets, "at": at})

    source: Source = Counting(Arrays(np.zeros((20, 1)), np.zeros(20)))
    batches = EpochBatches(source, global_batch=8)
    for worker in range(2):
        seen.clear()
        list(batches.dataset.tfdp_workload.share(worker, 2, 1))
        assert len(seen) == 10
