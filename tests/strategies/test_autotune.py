"""The trial that chooses the reducer and its buckets, on one process."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import tfdp
from tests.strategies import linear
from tfdp.collectives import Topology
from tfdp.collectives.registry import get
from tfdp.strategies import autotune
from tfdp.strategies.autotune import Choice


def test_a_choice_is_made_and_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autotune, "LAYERS", 3)
    monkeypatch.setattr(autotune, "BUDGET_SECONDS", 0.0)
    with caplog.at_level("INFO", logger="tfdp"):
        strategy: Any = tfdp.strategy("mirrored", devices=2, autotune=True)
    tuning = strategy.tfdp_tuning
    tried = {each["cross_device_ops"] for each in tuning["trial"]}
    assert tried == {"reduce_to_one", "ring", "hierarchical_copy"}
    assert tuning["chosen"]["cross_device_ops"] == strategy.tfdp_reducer.name
    assert tuning["chosen"]["bucket_mb"] * 2**20 == strategy.extended.tfdp_bucket_bytes
    assert f"autotune: {strategy.tfdp_reducer.name} with" in caplog.text
    net = linear.model(strategy, lambda: keras.optimizers.SGD(0.125))
    net.fit(linear.X, linear.Y, batch_size=7, verbose=0, shuffle=False)
    expected = linear.W - 0.125 * linear.gradient(linear.X, linear.Y)
    np.testing.assert_allclose(linear.weights(net), expected, rtol=1e-6)


def test_what_is_set_is_not_tuned() -> None:
    strategy: Any = tfdp.strategy(
        "mirrored", devices=2, cross_device_ops="ring", bucket_mb=2, autotune=True
    )
    assert strategy.tfdp_tuning is None
    assert strategy.tfdp_reducer.name == "ring"
    assert strategy.extended.tfdp_bucket_bytes == 2 * 2**20


def test_only_buckets_of_a_reducer_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The times are made up: the second is the best by far, the third by too little."""
    monkeypatch.setattr(
        autotune,
        "_measure",
        lambda strategy, choices: list(zip(choices, (9.0, 5.0, 8.9), strict=True)),
    )
    strategy: Any = tfdp.strategy("mirrored", devices=2, cross_device_ops="ring", autotune=True)
    assert strategy.tfdp_tuning["chosen"] == {"cross_device_ops": "ring", "bucket_mb": 1.0}
    assert [each["bucket_mb"] for each in strategy.tfdp_tuning["trial"]] == [4, 1, 16]
    assert strategy.extended.tfdp_bucket_bytes == 2**20


def test_a_gain_of_less_than_five_percent_changes_nothing() -> None:
    one, other = Choice(get("reduce_to_one"), 1), Choice(get("ring"), 1)
    assert autotune._best([(one, 10.0), (other, 9.6)]) is one
    assert autotune._best([(one, 10.0), (other, 9.4)]) is other


def test_one_device_has_nothing_to_choose() -> None:
    strategy: Any = tfdp.strategy("single", autotune=True)
    assert strategy.tfdp_tuning is None


def test_a_reducer_with_buckets_says_so() -> None:
    topology = Topology(1, 2, "CPU")
    assert get("ring").has_buckets(topology)
    assert not get("reduce_to_one").has_buckets(topology)
