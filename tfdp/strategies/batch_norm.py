"""One switch that makes BatchNormalization see the whole batch."""

from __future__ import annotations

from typing import TypeVar

import keras

Model = TypeVar("Model", bound=keras.Model)


def synchronize_batch_norm(model: Model) -> Model:
    """Makes every `BatchNormalization` of a model use the statistics of the whole batch.

    Without it each replica normalises with the statistics of its own rows, as in any data-parallel
    training, and N replicas differ from one device by definition. Call it before the model trains.

    Args:
        model: changed in place, layers inside layers included.

    Returns:
        The same model.
    """
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.synchronized = True
    return model
