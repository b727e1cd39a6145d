"""From tickets to what a model takes: read, transform, cast, weigh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfdp.data.order import example_seeds
from tfdp.data.sources.base import Source, Tickets
from tfdp.errors import DataError

Transform = Callable[[Any, Any, tf.Tensor], tuple[Any, Any]]
"""`transform(x, y, seed)` of one example, with a seed of shape `(2,)`; returns `(x, y)`."""


class Finish:
    """The expensive part of the input, for the tickets of a piece of a batch.

    Args:
      source: whose tickets they are.
      seed: of the data; the transform gets a seed for each example.
      transform: changes each example, or None.
    """

    def __init__(self, source: Source, seed: int = 0, transform: Transform | None = None) -> None:
        self._source = source
        self._seed = seed
        self._transform = transform

    @tf.autograph.experimental.do_not_convert
    def __call__(self, tickets: Tickets) -> tuple[Any, ...]:
        """`(x, y)` or `(x, y, sample_weight)` of the tickets.

        uint8 images (rank 3 or 4) come as floats in [0, 1] with a channel axis, floats as Keras'
        float type, everything else as it is.
        """
        x, y, *weights = self._source.read(tickets)
        x = tf.nest.map_structure(_as_input, x)
        if self._transform is not None:
            x, y = self._transformed(x, y, tickets)
        if "weight" in tickets:
            weight = tickets["weight"]
            weights = [_times(weights[0], weight) if weights else weight]
        return (
            tf.nest.map_structure(_as_float, x),
            *tf.nest.map_structure(_as_float, (y, *weights)),
        )

    def _transformed(self, x: Any, y: Any, tickets: Tickets) -> tuple[Any, Any]:
        seeds = example_seeds(self._seed, tickets["epoch"], tickets["number"])
        one = tf.nest.map_structure(
            lambda leaf: tf.TensorSpec(leaf.shape[1:], leaf.dtype), (x, y, seeds)
        )
        # Traced here and not within map_fn, which an error would leave in disorder.
        transform = traced_transform(self._transform, one)
        changed = tf.map_fn(
            lambda example: tuple(transform(*example)), (x, y, seeds), fn_output_signature=one[:2]
        )
        return changed[0], changed[1]


def traced_transform(transform: Any, spec: tuple[Any, Any, Any]) -> Any:
    """The user's transform as a graph, whose result is an example like the one it is given.

    Args:
      transform: see `Transform`.
      spec: types of x, y and seed.

    Raises:
      DataError: it raised, or its result has another structure, dtype or shape: the model would
        be trained on other inputs than it is validated on.
    """
    name = getattr(transform, "__name__", str(transform))

    def changed(x: Any, y: Any, seed: tf.Tensor) -> Any:
        return tf.nest.map_structure(tf.convert_to_tensor, transform(x, y, seed))

    try:
        traced = tf.function(changed)
        result = traced.get_concrete_function(*spec).structured_outputs
    except Exception as error:  # whatever the user's function raises
        raise DataError(
            f"data.transform: {name} raised {type(error).__name__}: {' '.join(str(error).split())}"
        ) from error
    expected = spec[:2]
    try:
        tf.nest.assert_same_structure(tuple(result), expected)
    except (ValueError, TypeError):
        raise DataError(
            f"data.transform: {name} returned {result!r}, not (x, y) as it was given."
        ) from None
    pairs = zip(tf.nest.flatten(result), tf.nest.flatten(expected), strict=True)
    for found, wanted in pairs:
        if found.dtype != wanted.dtype or not found.shape.is_compatible_with(wanted.shape):
            raise DataError(
                f"data.transform: {name} turned {wanted.dtype.name} of shape {wanted.shape} "
                f"into {found.dtype.name} of shape {found.shape}.",
                hint="Keep shape and dtype: validation examples are not transformed.",
            )
    return traced


def _times(value: Any, weight: tf.Tensor) -> Any:
    def scaled(leaf: tf.Tensor) -> tf.Tensor:
        shape = tf.concat([tf.shape(weight), tf.ones([tf.rank(leaf) - 1], tf.int32)], axis=0)
        return _as_float(leaf) * tf.reshape(tf.cast(weight, keras.config.floatx()), shape)

    return tf.nest.map_structure(scaled, value)


def _as_input(batch: tf.Tensor) -> tf.Tensor:
    """Scales uint8 images, and gives grey ones their channel axis."""
    if batch.dtype != tf.uint8 or batch.shape.rank not in (3, 4):
        return _as_float(batch)
    scaled = tf.cast(batch, keras.config.floatx()) / 255
    return scaled[..., tf.newaxis] if batch.shape.rank == 3 else scaled


def _as_float(batch: tf.Tensor) -> tf.Tensor:
    return tf.cast(batch, keras.config.floatx()) if batch.dtype.is_floating else batch
