"""What a user's data function may return, and how it becomes training and validation data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tfdp.config.data import DataConfig
from tfdp.config.functions import call_function, load_function
from tfdp.data.arrays import Arrays, check_images, split_off_validation
from tfdp.data.images import fashion_mnist
from tfdp.errors import DataError

Examples: TypeAlias = Arrays | tf.data.Dataset
"""Rows in memory, or a data set of *global* batches (all replicas together)."""

_EXPECTED = (
    "Expected (x, y) or (x, y, sample_weight) of arrays (x and y may also be dicts of arrays), a "
    "tf.data.Dataset of batches (x, y), or a pair (training, validation) of two of these."
)


@dataclass(frozen=True)
class TrainingData:
    """The examples to train on, and those to validate on, if any."""

    train: Examples
    validation: Examples | None = None


def load_data(config: DataConfig, directory: Path) -> TrainingData:
    """The examples that a config names.

    Args:
      config: section ``data``.
      directory: where the user's module is looked for first.

    Raises:
      ConfigError: the user's function is missing or does not take its arguments.
      DataError: the examples are missing, damaged, empty or of the wrong form, or cannot be
        divided as `config.validation_fraction` asks.
    """
    if config.function is not None:
        data = user_data(config.function, config.arguments, directory)
    else:
        data = bundled_data(str(config.name), config.arguments)
    if not config.validation_fraction:
        return data
    if data.validation is not None:
        raise DataError(
            f"data.validation_fraction is {config.validation_fraction}, but the data bring "
            "validation examples of their own.",
            hint="Set it to 0 to use those.",
        )
    if not isinstance(data.train, Arrays):
        raise DataError(
            f"data.validation_fraction is {config.validation_fraction}, but a tf.data.Dataset "
            "cannot be divided by rows.",
            hint="Return arrays, or a pair (training, validation) of data sets.",
        )
    return TrainingData(*split_off_validation(data.train, config.validation_fraction, config.seed))


def bundled_data(name: str, arguments: Mapping[str, Any]) -> TrainingData:
    """The data that ships with tfdp: "fashion_mnist", validated on its test images.

    Args:
      name: which data.
      arguments: ``directory``: optional, the original files instead of the bundled subset.

    Raises:
      DataError: no such data or argument, or a missing or damaged file.
    """
    if name != "fashion_mnist":
        raise DataError(f"data.name: there is no {name!r}; known: fashion_mnist.")
    unknown = sorted(set(arguments) - {"directory"})
    if unknown:
        raise DataError(f"data.arguments: fashion_mnist takes directory, not {', '.join(unknown)}.")
    (x_train, y_train), (x_test, y_test) = fashion_mnist(**arguments)
    check_images(x_train, "training data")
    check_images(x_test, "validation data")
    return TrainingData(Arrays(x_train, y_train), Arrays(x_test, y_test, place="validation data"))


def user_data(reference: str, arguments: Mapping[str, Any], directory: Path) -> TrainingData:
    """Calls the user's ``module:function`` and takes what it returns for training data.

    Args:
      reference: ``module:function``.
      arguments: keyword arguments of the function.
      directory: the config's directory, where the module is looked for first.

    Raises:
      ConfigError: there is no such function, or it does not take these arguments.
      DataError: it raised, or what it returned cannot be trained on.
    """
    key = "data.function"
    function = load_function(reference, key=key, directory=directory)
    value = call_function(function, arguments, key=key, reference=reference, error=DataError)
    return as_training_data(value, source=reference)


def as_training_data(value: Any, *, source: str) -> TrainingData:
    """Interprets a returned value as training data.

    Args:
      value: see `_EXPECTED`, which is the hint of the error.
      source: who returned it, for messages.

    Raises:
      DataError: `value` is something else, or there are no examples in it.
    """
    if _is_pair(value):
        train, validation = value
        return TrainingData(
            _as_examples(train, source, "training data"),
            None if validation is None else _as_examples(validation, source, "validation data"),
        )
    return TrainingData(_as_examples(value, source, "training data"))


def _is_pair(value: Any) -> bool:
    """Whether `value` is (training, validation); (x, y) is a pair of arrays or dicts instead."""
    return (
        isinstance(value, (tuple, list))
        and len(value) == 2
        and isinstance(value[0], (tuple, list, tf.data.Dataset))
        and isinstance(value[1], (tuple, list, tf.data.Dataset, type(None)))
    )


def _as_examples(value: Any, source: str, place: str) -> Examples:
    if isinstance(value, tf.data.Dataset):
        _check_dataset(value, source, place)
        return value
    if isinstance(value, (tuple, list)) and len(value) in (2, 3) and all(map(_is_column, value)):
        weight = value[2] if len(value) == 3 else None
        return Arrays(value[0], value[1], weight, place=f"{place} of {source}")
    raise DataError(f"data.function: {source} returned {_shape_of(value)}.", hint=_EXPECTED)


def _is_column(value: Any) -> bool:
    return isinstance(value, (np.ndarray, Mapping)) or hasattr(value, "__array__")


def _check_dataset(dataset: tf.data.Dataset, source: str, place: str) -> None:
    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) not in (2, 3):
        raise DataError(
            f"{place} of {source}: the elements of the tf.data.Dataset are {spec}, not (x, y) or "
            "(x, y, sample_weight)."
        )
    for part in tf.nest.flatten(spec):
        shape = getattr(part, "shape", None)
        if shape is not None and tf.TensorShape(shape).rank == 0:
            raise DataError(
                f"{place} of {source}: the tf.data.Dataset gives single values, not batches.",
                hint="Batch it in the function: dataset.batch(rows of all replicas together).",
            )
    try:
        first = next(iter(dataset.take(1)), None)
    except tf.errors.OpError as error:
        text = str(error.message).strip().splitlines()[0] if error.message else str(error)
        raise DataError(f"{place} of {source}: reading the first batch failed: {text}") from error
    if first is None:
        raise DataError(f"{place} of {source}: the tf.data.Dataset is empty.")


def _shape_of(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        parts = ", ".join(type(part).__name__ for part in value)
        return f"a {type(value).__name__} of ({parts})"
    return type(value).__name__
