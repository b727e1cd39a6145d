"""What several replicas cannot share with one device, by definition of the layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras

from tfdp.strategies.batch_norm import synchronize_batch_norm

_SWITCHES = ("rate", "stddev", "dropout", "recurrent_dropout")


def reasons(model: keras.Model) -> list[str]:
    """One sentence for each kind of layer whose result depends on how a batch is cut.

    Empty for a model that N replicas must train as one device does.
    """
    found = []
    unsynchronized = [layer.name for layer in _layers(model) if _has_local_statistics(layer)]
    if unsynchronized:
        found.append(
            f"{_some(unsynchronized)} (BatchNormalization) normalises with the statistics of a "
            "replica's own rows; tfdp.synchronize_batch_norm(model) changes that"
        )
    random = [layer.name for layer in _layers(model) if _draws(layer)]
    if random:
        found.append(f"{_some(random)} draws random numbers, and each replica has its own stream")
    return found


def make_comparable(model: keras.Model) -> list[str]:
    """Synchronises BatchNormalization and switches random layers off, in place.

    Returns:
      Names of the layers that go on drawing random numbers: they have no switch.
    """
    synchronize_batch_norm(model)
    stubborn = []
    for layer in _layers(model):
        if not _draws(layer):
            continue
        switches = [name for name in _SWITCHES if isinstance(getattr(layer, name, None), float)]
        for name in switches:
            setattr(layer, name, 0.0)
        if not switches:
            stubborn.append(layer.name)
    return stubborn


def precision(model: keras.Model) -> str:
    """The least precise floating-point type that the model computes in."""
    order = ("bfloat16", "float16", "float32", "float64")
    used = {layer.compute_dtype for layer in _layers(model)}
    return next((dtype for dtype in order if dtype in used), keras.config.floatx())


def _layers(model: keras.Model) -> Iterator[Any]:
    yield from model._flatten_layers()


def _has_local_statistics(layer: Any) -> bool:
    return (
        isinstance(layer, keras.layers.BatchNormalization)
        and not layer.synchronized
        and layer.trainable
    )


def _draws(layer: Any) -> bool:
    """Whether the layer owns a random stream, and the switch it may have is not at zero."""
    owns = any(isinstance(value, keras.random.SeedGenerator) for value in vars(layer).values())
    values = [getattr(layer, name) for name in _SWITCHES if hasattr(layer, name)]
    return owns and not (values and all(value == 0 for value in values))


def _some(names: list[str], shown: int = 3) -> str:
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")
