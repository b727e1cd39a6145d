"""Models and data to compare on: from a config, or as they were handed over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdp.config import Config
from tfdp.data.builder import TrainingData, as_training_data, load_data
from tfdp.errors import DataError
from tfdp.parity.feeds import Feed, make_feed
from tfdp.training.build import build_model

_SOURCE = "data"


def training_data(value: Any, *, batches: bool = False) -> TrainingData:
    """What `verify` was given, as training data.

    Args:
      value: arrays `(x, y)` or `(x, y, sample_weight)`, a `tf.data.Dataset` of global batches, or a
        pair (training, validation) of two of these.
      batches: whether `value` is a list of batches instead.

    Raises:
      DataError: it is none of these, or there are no examples in it.
    """
    return as_training_data(_dataset(value) if batches else value, source=_SOURCE)


def first_batches(dataset: Iterable[Any], steps: int) -> list[Any]:
    """The first batches of a data set, as NumPy arrays.

    Raises:
      DataError: ragged or sparse batches, which cannot be handed over.
    """
    if isinstance(dataset, keras.utils.PyDataset):
        return [dataset[i] for i in range(min(steps, len(dataset)))]
    spec = dataset.element_spec  # type: ignore[attr-defined]
    special = [s for s in tf.nest.flatten(spec) if not isinstance(s, tf.TensorSpec)]
    if special:
        raise DataError(
            f"data: batches of {type(special[0]).__name__} cannot be handed to another process.",
            hint="Pass a function that makes the data set instead.",
        )
    return list(dataset.take(steps).as_numpy_iterator())  # type: ignore[attr-defined]


def config_functions(config: Config, steps: int) -> tuple[Callable[[], Any], Callable[[], Feed]]:
    """`(build, feed)`: the model and the data of a config."""
    directory = Path(config.module_directory or ".")
    if config.training.mixed_precision != "none":
        keras.config.set_dtype_policy(f"mixed_{config.training.mixed_precision}")
    data = load_data(config.data, directory)

    def build() -> keras.Model:
        return build_model(config, data)

    def feed() -> Feed:
        return make_feed(data, config.data.global_batch, steps, as_in_training=True)

    return build, feed


def _dataset(batches: list[Any]) -> tf.data.Dataset:
    """A data set of batches in memory, whose rows may differ in number."""
    first = batches[0]

    def spec(leaf: np.ndarray) -> tf.TensorSpec:
        # Text comes as NumPy text and goes as TensorFlow strings.
        dtype = tf.string if leaf.dtype.kind in "SU" else tf.as_dtype(leaf.dtype)
        shape = (None,) * leaf.ndim if len(batches) > 1 else (None, *leaf.shape[1:])
        same = {b.shape[1:] for b in _leaves_like(batches, leaf, first)}
        return tf.TensorSpec((None, *leaf.shape[1:]) if len(same) == 1 else shape, dtype)

    dataset = tf.data.Dataset.from_generator(
        lambda: iter(batches), output_signature=tf.nest.map_structure(spec, first)
    )
    return dataset.apply(tf.data.experimental.assert_cardinality(len(batches)))


def _leaves_like(batches: list[Any], leaf: np.ndarray, first: Any) -> list[np.ndarray]:
    place = [id(each) for each in tf.nest.flatten(first)].index(id(leaf))
    return [tf.nest.flatten(batch)[place] for batch in batches]
