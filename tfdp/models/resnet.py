"""A residual network for small images, in plain Keras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers


def resnet_small(
    input_shape: Sequence[int],
    classes: int,
    *,
    width: int = 16,
    blocks: Sequence[int] = (1, 1, 1),
    stem_strides: int = 1,
    dropout: float = 0.0,
    synchronized_batch_norm: bool = False,
) -> keras.Model:
    """Builds a residual network that classifies small images.

    A 3x3 convolution, stages of basic residual blocks (He et al., "Deep Residual Learning for
    Image Recognition", 2015, section 3.3), global average pooling and a softmax. Every stage after
    the first halves the resolution and doubles the number of channels.

    Args:
      input_shape: `(height, width, channels)` of one image.
      classes: how many classes to tell apart.
      width: channels of the first stage.
      blocks: residual blocks of each stage.
      stem_strides: of the first convolution; 2 halves the resolution there, which takes a quarter
        of the time.
      dropout: rate before the softmax, in [0, 1).
      synchronized_batch_norm: whether BatchNormalization takes its statistics over the rows of all
        replicas, as one device would, instead of each replica's own.

    Returns:
      A model from `(rows, height, width, channels)` to probabilities `(rows, classes)`, float32
      under mixed precision too.

    Raises:
      ValueError: an argument is out of range.
    """
    _check(input_shape, classes, width, blocks, dropout)
    # Keras' momentum of 0.99 forgets the first steps too slowly for runs of a few hundred steps.
    norm: dict[str, Any] = {"momentum": 0.9, "synchronized": synchronized_batch_norm}
    inputs = keras.Input(tuple(input_shape), name="image")
    x = _convolution(inputs, width, stem_strides, name="stem")
    x = layers.BatchNormalization(name="stem_norm", **norm)(x)
    x = layers.Activation("relu", name="stem_relu")(x)
    for stage, count in enumerate(blocks):
        for block in range(count):
            strides = 2 if stage > 0 and block == 0 else 1
            x = _block(
                x, width * 2**stage, strides, norm, name=f"stage{stage + 1}_block{block + 1}"
            )
    x = layers.GlobalAveragePooling2D(name="pool")(x)
    if dropout:
        x = layers.Dropout(dropout, name="dropout")(x)
    x = layers.Dense(classes, name="logits")(x)
    # Probabilities near 0 or 1 need more than the 8 or 11 significant bits of mixed precision.
    dtype = keras.config.floatx()
    outputs = layers.Activation("softmax", dtype=dtype, name="probabilities")(x)
    return keras.Model(inputs, outputs, name="resnet_small")


def _block(
    x: keras.KerasTensor, channels: int, strides: int, norm: dict[str, Any], name: str
) -> keras.KerasTensor:
    """Two convolutions, added to the input, or to a projection of it where the shape changes."""
    shortcut = x
    if strides != 1 or x.shape[-1] != channels:
        shortcut = _convolution(x, channels, strides, size=1, name=f"{name}_shortcut")
        shortcut = layers.BatchNormalization(name=f"{name}_shortcut_norm", **norm)(shortcut)
    x = _convolution(x, channels, strides, name=f"{name}_conv1")
    x = layers.BatchNormalization(name=f"{name}_norm1", **norm)(x)
    x = layers.Activation("relu", name=f"{name}_relu1")(x)
    x = _convolution(x, channels, name=f"{name}_conv2")
    x = layers.BatchNormalization(name=f"{name}_norm2", **norm)(x)
    x = layers.Add(name=f"{name}_add")([x, shortcut])
    return layers.Activation("relu", name=f"{name}_relu2")(x)


def _convolution(
    x: keras.KerasTensor, channels: int, strides: int = 1, *, size: int = 3, name: str
) -> keras.KerasTensor:
    return layers.Conv2D(
        channels,
        size,
        strides=strides,
        padding="same",
        use_bias=False,  # the BatchNormalization that follows has one
        kernel_initializer="he_normal",
        name=name,
    )(x)


def _check(
    input_shape: Sequence[int], classes: int, width: int, blocks: Sequence[int], dropout: float
) -> None:
    if len(input_shape) != 3 or not all(isinstance(n, int) and n > 0 for n in input_shape):
        raise ValueError(
            f"input_shape is {tuple(input_shape)}; expected (height, width, channels), all positive"
        )
    if classes < 2:
        raise ValueError(f"classes is {classes}; expected 2 or more")
    if width < 1:
        raise ValueError(f"width is {width}; expected 1 or more")
    if not blocks or min(blocks) < 1:
        raise ValueError(f"blocks is {tuple(blocks)}; expected one or more blocks for each stage")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout is {dropout}; expected 0 <= dropout < 1")
