"""What a user's data function may return, and how it becomes training and validation data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdp.config.data import DataConfig
from tfdp.config.functions import call_function, load_function
from tfdp.data.arrays import Arrays, rows_of, split_off_validation
from tfdp.data.examples import Examples, TrainingData
from tfdp.data.sources.base import Source
from tfdp.data.sources.frames import from_frame, is_frame
from tfdp.data.sources.py_dataset import from_py_dataset
from tfdp.data.sources.registry import Context, load_source
from tfdp.errors import DataError

__all__ = ["Examples", "TrainingData", "as_training_data", "load_data", "user_data"]

_EXPECTED = (
    "Expected (x, y) or (x, y, sample_weight) of arrays or pandas frames (x and y may also be "
    "dicts of arrays), a tf.data.Dataset or keras.utils.PyDataset of batches (x, y), a "
    "tfdp.data source, or a pair (training, validation) of two of these."
)


def load_data(config: DataConfig, directory: Path, *, worker: int | None = None) -> TrainingData:
    """The examples that a config names.

    Args:
      config: section ``data``.
      directory: where the user's module is looked for first, and relative paths begin.
      worker: this worker's index, or None where there are no workers.

    Raises:
      ConfigError: the user's function is missing, or it or the source does not take its arguments.
      DataError: the examples are missing, damaged, empty or of the wrong form, or cannot be
        divided as `config.validation_fraction` asks.
    """
    if config.function is not None:
        data = user_data(config.function, config.arguments, directory)
    else:
        data = load_source(
            str(config.name), config.arguments, Context(directory, worker, config.on_error)
        )
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
            f"data.validation_fraction is {config.validation_fraction}, but only rows in memory "
            "can be divided by rows.",
            hint="Return arrays or a pair (training, validation); a source of files takes a "
            "pattern of its own for validation.",
        )
    return TrainingData(*split_off_validation(data.train, config.validation_fraction, config.seed))


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


_WHOLE = (tf.data.Dataset, keras.utils.PyDataset, Source)
"""What stands for all examples by itself."""


def _is_pair(value: Any) -> bool:
    """Whether `value` is (training, validation); (x, y) is a pair of arrays or dicts instead."""
    return (
        isinstance(value, (tuple, list))
        and len(value) == 2
        and isinstance(value[0], (tuple, list, *_WHOLE))
        and isinstance(value[1], (tuple, list, *_WHOLE, type(None)))
    )


def _as_examples(value: Any, source: str, place: str) -> Examples:
    if isinstance(value, Source):
        return value
    if isinstance(value, keras.utils.PyDataset):
        value = from_py_dataset(value, f"{place} of {source}")
    if isinstance(value, tf.data.Dataset):
        _check_dataset(value, source, place)
        return value
    if isinstance(value, (tuple, list)) and len(value) in (2, 3) and all(map(_is_column, value)):
        name = f"{place} of {source}"
        columns = [
            from_frame(column, f"{name}: {part}") if is_frame(column) else column
            for part, column in zip(("x", "y", "sample_weight"), value, strict=False)
        ]
        return rows_of(tuple(columns), name)
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
