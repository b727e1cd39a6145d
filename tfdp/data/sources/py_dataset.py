"""`keras.utils.PyDataset`: batches that somebody's own code makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from tfdp.errors import DataError


def from_py_dataset(batches: keras.utils.PyDataset, place: str) -> tf.data.Dataset:
    """The batches as a tf.data.Dataset, with the types of the first one.

    Every worker makes all batches, so they have to be the same on all: shuffle from a seed.

    Args:
      batches: of the global size; `on_epoch_end` is called after each pass.
      place: what to call them in messages.

    Raises:
      DataError: no batches, no length, or the first cannot be made.
    """
    try:
        count = len(batches)
        first = batches[0] if count else None
    except Exception as error:  # the user's own code
        raise DataError(
            f"{place}: the first batch of {type(batches).__name__} cannot be made: "
            f"{type(error).__name__}: {error}"
        ) from error
    if first is None:
        raise DataError(f"{place}: {type(batches).__name__} has no batches.")

    def generate() -> Iterator[Any]:
        for number in range(count):
            yield tuple(batches[number])
        batches.on_epoch_end()

    dataset = tf.data.Dataset.from_generator(
        generate, output_signature=tf.nest.map_structure(_spec, tuple(first))
    )
    return dataset.apply(tf.data.experimental.assert_cardinality(count))


def _spec(leaf: Any) -> tf.TensorSpec:
    tensor = tf.convert_to_tensor(leaf)
    return tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype)
