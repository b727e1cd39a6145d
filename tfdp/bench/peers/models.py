"""The models that are measured, in Keras, and data of their shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

SMALL_TENSORS_LAYERS: Final = 32
SMALL_TENSORS_WIDTH: Final = 64
EMBEDDING_WIDTH: Final = 64
EMBEDDING_WORDS: Final = 32
EMBEDDING_ROWS: Final = 200_000
CLASSES: Final = 10


@dataclass(frozen=True)
class Batch:
    """Made-up examples.

    Attributes:
      inputs: float32 images or vectors, or int32 words, (rows, ...).
      labels: int32, (rows,).
    """

    inputs: np.ndarray
    labels: np.ndarray


def make_batch(name: str, rows: int, seed: int = 0) -> Batch:
    """So many examples for the model."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, rows).astype(np.int32)
    if name == "large_embedding":
        words = rng.integers(0, EMBEDDING_ROWS, (rows, EMBEDDING_WORDS)).astype(np.int32)
        return Batch(words, labels)
    shape = (SMALL_TENSORS_WIDTH,) if name == "many_small_tensors" else (32, 32, 3)
    return Batch(rng.normal(size=(rows, *shape)).astype(np.float32), labels)


def build(name: str) -> Any:
    """The model, not compiled. It gives logits; `resnet_small` gives probabilities.

    The gradient of an embedding is what each library makes of it by default: TensorFlow joins the
    rows that a batch has used, PyTorch sums the whole table.
    """
    import keras

    if name == "resnet_small":
        from tfdp.models.resnet import resnet_small

        return resnet_small((32, 32, 3), CLASSES)
    if name == "resnet50":
        return keras.applications.ResNet50(
            weights=None, input_shape=(32, 32, 3), classes=CLASSES, classifier_activation=None
        )
    if name == "many_small_tensors":
        return _many_small_tensors(keras)
    return _large_embedding(keras)


def loss_of(name: str) -> Any:
    """The loss that fits what the model gives."""
    import keras

    return keras.losses.SparseCategoricalCrossentropy(from_logits=name != "resnet_small")


def _many_small_tensors(keras: Any) -> Any:
    inputs = keras.Input((SMALL_TENSORS_WIDTH,))
    x = inputs
    for _ in range(SMALL_TENSORS_LAYERS):
        y = keras.layers.Dense(SMALL_TENSORS_WIDTH, activation="relu")(x)
        x = keras.layers.LayerNormalization(epsilon=1e-5)(keras.layers.Add()([x, y]))
    return keras.Model(inputs, keras.layers.Dense(CLASSES)(x))


def _large_embedding(keras: Any) -> Any:
    inputs = keras.Input((EMBEDDING_WORDS,), dtype="int32")
    x = keras.layers.Embedding(EMBEDDING_ROWS, EMBEDDING_WIDTH)(inputs)
    x = keras.layers.GlobalAveragePooling1D()(x)
    x = keras.layers.Dense(128, activation="relu")(x)
    return keras.Model(inputs, keras.layers.Dense(CLASSES)(x))
