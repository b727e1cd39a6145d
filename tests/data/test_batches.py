"""The order and content of global batches, against NumPy and Python."""

from __future__ import annotations

from itertools import chain

import keras
import numpy as np
import pytest

from tfdp.data.arrays import Arrays
from tfdp.data.batches import EpochBatches


def numbered(rows: int) -> Arrays:
    return Arrays(np.arange(rows, dtype=np.float32)[:, None], np.arange(rows))


def epoch(batches: EpochBatches, number: int) -> list[list[int]]:
    batches.set_epoch(number)
    return [y.tolist() for _, y in batches.dataset.as_numpy_iterator()]


@pytest.mark.parametrize("rows", [1, 2, 3, 10, 32, 33])
@pytest.mark.parametrize("shuffle", [True, False])
def test_every_row_comes_once_an_epoch(rows: int, shuffle: bool) -> None:
    batches = EpochBatches(numbered(rows), global_batch=10, seed=4, shuffle=shuffle)
    for number in range(3):
        found = epoch(batches, number)
        assert [len(batch) for batch in found[:-1]] == [10] * (len(found) - 1)
        assert sorted(chain(*found)) == list(range(rows))
        if not shuffle:
            assert list(chain(*found)) == list(range(rows))
    assert int(batches.dataset.cardinality()) == batches.steps == -(-rows // 10)


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    def orders(seed: int, numbers: list[int]) -> list[list[list[int]]]:
        batches = EpochBatches(numbered(50), global_batch=8, seed=seed)
        return [epoch(batches, number) for number in numbers]

    ahead = orders(seed=1, numbers=[0, 1, 2])
    assert ahead[0] != ahead[1] != ahead[2] != ahead[0]
    # However often it was iterated before, and in whichever process:
    assert orders(seed=1, numbers=[2, 2, 0, 1]) == [ahead[2], ahead[2], ahead[0], ahead[1]]
    assert orders(seed=2, numbers=[0]) != ahead[:1]


def test_the_position_of_a_row_is_spread_evenly() -> None:
    batches = EpochBatches(numbered(16), global_batch=16, seed=0)
    first = [epoch(batches, number)[0].index(0) for number in range(400)]
    counts = np.bincount(first, minlength=16)
    # 25 each are expected, with a standard deviation of 4.8: five of those is a fault.
    assert counts.min() > 0
    assert counts.max() < 50


def test_an_epoch_that_changes_while_it_runs_is_not_torn() -> None:
    batches = EpochBatches(numbered(40), global_batch=4, seed=3)
    expected = epoch(batches, 0)
    batches.set_epoch(0)
    found = []
    for _, y in batches.dataset.as_numpy_iterator():
        batches.set_epoch(7)
        found.append(y.tolist())
    assert found == expected


def test_steps_cut_the_series_of_sweeps_into_epochs() -> None:
    sweeps = EpochBatches(numbered(10), global_batch=4, seed=5)
    series = list(chain(*(epoch(sweeps, number) for number in range(4))))
    assert [len(batch) for batch in series] == [4, 4, 2] * 4
    batches = EpochBatches(numbered(10), global_batch=4, seed=5, steps=5)
    assert epoch(batches, 0) + epoch(batches, 1) == series[:10]
    batches.set_epoch(1)
    assert [batches.rows_in_step(step) for step in range(5)] == [len(b) for b in series[5:10]]


def test_images_are_scaled_and_grey_ones_get_a_channel() -> None:
    image = np.array([[[0, 51], [102, 255]]], np.uint8)
    batches = EpochBatches(Arrays(image, np.array([3], np.uint8)), global_batch=1)
    x, y = next(batches.dataset.as_numpy_iterator())
    assert x.dtype == np.float32
    assert x.shape == (1, 2, 2, 1)
    np.testing.assert_allclose(x[0, :, :, 0], [[0, 0.2], [0.4, 1]], rtol=1e-7)
    assert y.dtype == np.uint8


def test_everything_else_keeps_its_form() -> None:
    arrays = Arrays(
        {"ids": np.arange(6).reshape(2, 3), "bytes": np.array([[7, 8], [9, 10]], np.uint8)},
        np.array([0.5, 1.5]),
        np.array([1.0, 2.0]),
    )
    x, y, weight = next(
        EpochBatches(arrays, global_batch=2, shuffle=False).dataset.as_numpy_iterator()
    )
    assert x["ids"].dtype == np.int64
    assert x["bytes"].tolist() == [[7, 8], [9, 10]]
    assert (y.dtype, weight.dtype) == (np.float32, np.float32)
    assert weight.tolist() == [1.0, 2.0]


def test_floats_follow_keras_float_type() -> None:
    keras.config.set_floatx("float64")
    try:
        arrays = Arrays(np.zeros((1, 2, 2), np.uint8), np.array([0.1]))
        x, y = next(EpochBatches(arrays, global_batch=1).dataset.as_numpy_iterator())
    finally:
        keras.config.set_floatx("float32")
    assert (x.dtype, y.dtype) == (np.float64, np.float64)
    assert y[0] == 0.1
