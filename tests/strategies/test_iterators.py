"""The iterators that carry rows to a replica's device have no thread that tunes them."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

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
