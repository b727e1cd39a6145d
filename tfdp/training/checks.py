"""What must hold between data, model and replicas, checked before TensorFlow would stumble."""

from __future__ import annotations

from typing import Any, TypeGuard

import keras
import numpy as np
import tensorflow as tf

from tfdp.data.arrays import Arrays, check_labels
from tfdp.data.builder import Examples
from tfdp.data.pipeline import input_spec
from tfdp.data.sources.base import Source
from tfdp.errors import ConfigError, DataError

_SPARSE = "sparse_categorical_crossentropy"


def check_row_for_each_replica(global_batch: int, replicas: int) -> None:
    """Raises a `ConfigError` where a full batch would leave a replica without a row."""
    if global_batch < replicas:
        raise ConfigError(
            f"data.global_batch: is {global_batch}, but there are {replicas} replicas, and each "
            "needs a row of every full batch.",
            hint=f"Set data.global_batch to {replicas} or more, or use fewer devices or workers.",
        )


def check_examples_fit_model(examples: Examples, model: keras.Model) -> None:
    """Compares the shape of inputs, and class numbers, with what the model takes and gives.

    Models with several inputs or outputs, and losses other than sparse cross-entropy, are left to
    Keras.

    Args:
      examples: training or validation data.
      model: built and compiled.

    Raises:
      DataError: the shapes do not match, or a label is not among the model's classes.
    """
    place = examples.place if isinstance(examples, Arrays | Source) else "data.function"
    _check_input(row_shape(examples), getattr(model, "input_shape", None), place)
    classes = _classes(model)
    if classes is None or not _is_sparse(model.loss):
        return
    if isinstance(examples, Arrays):
        check_labels(examples.y, classes, examples.place)
    elif isinstance(examples, Source) and examples.classes is None:
        examples.classes = classes  # a label that is out of range is named when it is read


def row_shape(examples: Examples) -> tuple[int | None, ...] | None:
    """The shape of one input as the model sees it, or None for several inputs or none that is
    known. Grey uint8 images have a channel axis there.
    """
    if isinstance(examples, Arrays):
        x = examples.x
        if not isinstance(x, np.ndarray):
            return None
        grey = x.dtype == np.uint8 and x.ndim == 3
        return (*x.shape[1:], 1) if grey else x.shape[1:]
    spec = (input_spec(examples) if isinstance(examples, Source) else examples.element_spec)[0]
    if not isinstance(spec, tf.TensorSpec) or spec.shape.rank is None:
        return None
    return tuple(spec.shape[1:])


def class_count(*parts: Examples | None) -> int | None:
    """One more than the largest label in `parts`, or None where they are not class numbers."""
    largest = -1
    for part in parts:
        if part is None:
            continue
        if isinstance(part, Source) and part.classes is not None:
            largest = max(largest, part.classes - 1)
            continue
        if not isinstance(part, Arrays) or not isinstance(part.y, np.ndarray):
            return None
        if part.y.dtype.kind not in "iu":
            return None
        largest = max(largest, int(part.y.max()))
    return largest + 1 if largest >= 0 else None


def _check_input(row: tuple[int | None, ...] | None, expected: Any, place: str) -> None:
    if row is None or not _is_shape(expected):
        return
    wanted = expected[1:]
    fits = len(row) == len(wanted) and all(
        have is None or want is None or have == want for have, want in zip(row, wanted, strict=True)
    )
    if not fits:
        raise DataError(
            f"{place}: one input has shape {row}, but the model takes {tuple(wanted)}.",
            hint="Change model.arguments, or the data.",
        )


def _classes(model: keras.Model) -> int | None:
    shape = getattr(model, "output_shape", None)
    return shape[-1] if _is_shape(shape) and len(shape) == 2 else None


def _is_shape(shape: Any) -> TypeGuard[tuple[int | None, ...]]:
    """Not a list or dict of shapes, which several inputs or outputs have."""
    return isinstance(shape, tuple) and all(n is None or isinstance(n, int) for n in shape)


def _is_sparse(loss: Any) -> bool:
    return loss == _SPARSE or isinstance(loss, keras.losses.SparseCategoricalCrossentropy)
