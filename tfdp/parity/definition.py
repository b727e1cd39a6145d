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


def without_switch(model: keras.Model) -> list[str]:
    """Names of the layers whose random numbers `make_comparable` cannot switch off."""
    return [layer.name for layer in _layers(model) if _draws(layer) and not _switches(layer)]


def make_comparable(model: keras.Model) -> None:
    """Synchronises BatchNormalization and switches random layers off, in place."""
    synchronize_batch_norm(model)
    for layer in _layers(model):
        for name in _switches(layer) if _draws(layer) else ():
            setattr(layer, name, 0.0)


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
    switches = _switches(layer)
    return owns and (not switches or any(getattr(layer, name) != 0 for name in switches))


def _switches(layer: Any) -> list[str]:
    return [name for name in _SWITCHES if isinstance(getattr(layer, name, None), (int, float))]


def _some(names: list[str], shown: int = 3) -> str:
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")
