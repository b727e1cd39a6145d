"""Random layers: a stream for each replica, reproducible, and continued after a restart."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import tfdp


def masks(strategy: Any, steps: int, generator: Any) -> list[list[np.ndarray]]:
    """For each step the dropout masks that the replicas drew."""
    found = []
    for _ in range(steps):
        drawn = strategy.run(lambda: keras.random.dropout(np.ones(64), 0.5, seed=generator))
        found.append([value.numpy() for value in strategy.experimental_local_results(drawn)])
    return found


@pytest.fixture(scope="module")
def strategy() -> Any:
    return tfdp.strategy("mirrored", devices=4)


def generator(strategy: Any, seed: int = 7) -> Any:
    with strategy.scope():
        return keras.random.SeedGenerator(seed)


def test_every_replica_and_every_step_draws_another_mask(strategy: Any) -> None:
    drawn = [mask for step in masks(strategy, 3, generator(strategy)) for mask in step]
    assert len({mask.tobytes() for mask in drawn}) == 12


def test_replica_0_draws_what_one_device_draws(strategy: Any) -> None:
    alone = keras.random.SeedGenerator(7)
    expected = [keras.random.dropout(np.ones(64), 0.5, seed=alone).numpy() for _ in range(2)]
    drawn = [step[0] for step in masks(strategy, 2, generator(strategy))]
    np.testing.assert_array_equal(drawn, expected)


def test_the_seed_decides(strategy: Any) -> None:
    first = masks(strategy, 2, generator(strategy))
    np.testing.assert_array_equal(masks(strategy, 2, generator(strategy)), first)
    assert not np.array_equal(masks(strategy, 2, generator(strategy, 8)), first)


def test_a_restored_state_continues_every_stream(strategy: Any) -> None:
    original = generator(strategy)
    masks(strategy, 2, original)
    saved = original.state.numpy()
    expected = masks(strategy, 2, original)
    restored = generator(strategy, 1)
    restored.state.assign(saved)
    np.testing.assert_array_equal(masks(strategy, 2, restored), expected)


def test_the_state_stays_equal_on_all_replicas(strategy: Any) -> None:
    drawing = generator(strategy)
    masks(strategy, 3, drawing)
    states = [copy.numpy().tolist() for copy in drawing.state.value.values]
    assert states == [[7, 3]] * 4


def test_masks_are_independent(strategy: Any) -> None:
    """Two independent fair masks agree in half of the places, 0.5 +- 0.03 (six sigma)."""
    with strategy.scope():
        source = keras.random.SeedGenerator(3)
    drawn = strategy.run(lambda: keras.random.uniform((10_000,), seed=source))
    first, second, *_ = [v.numpy() > 0.5 for v in strategy.experimental_local_results(drawn)]
    assert abs(np.mean(first == second) - 0.5) < 0.03
