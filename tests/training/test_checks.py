"""Data, model and replicas that do not fit each other."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdp.data.arrays import Arrays
from tfdp.errors import ConfigError, DataError
from tfdp.training.checks import (
    check_examples_fit_model,
    check_row_for_each_replica,
    class_count,
    row_shape,
)


def model(width: int = 4, loss: str = "sparse_categorical_crossentropy") -> keras.Model:
    made = keras.Sequential([keras.Input((width,)), keras.layers.Dense(3)])
    made.compile("sgd", loss)
    return made


def test_every_replica_needs_a_row() -> None:
    check_row_for_each_replica(4, 4)
    with pytest.raises(ConfigError, match="is 3, but there are 4 replicas"):
        check_row_for_each_replica(3, 4)


X = np.zeros((5, 4), np.float32)


def test_examples_that_fit() -> None:
    check_examples_fit_model(Arrays(X, np.arange(5) % 3), model())
    check_examples_fit_model(
        tf.data.Dataset.from_tensor_slices((X, np.arange(5))).batch(2), model()
    )
    # Another loss has other targets:
    check_examples_fit_model(Arrays(X, np.full(5, 99.0)), model(loss="mse"))


def test_another_width() -> None:
    with pytest.raises(DataError, match=r"one input has shape \(4,\), but the model takes \(7,\)"):
        check_examples_fit_model(Arrays(X, np.zeros(5, int)), model(7))
    with pytest.raises(DataError, match=r"data\.function: one input has shape"):
        check_examples_fit_model(
            tf.data.Dataset.from_tensor_slices((X, np.arange(5))).batch(2), model(7)
        )


def test_a_label_that_the_model_does_not_have() -> None:
    with pytest.raises(DataError, match=r"label 3 in row 4 is out of range: .* 3 classes"):
        check_examples_fit_model(Arrays(X, np.array([0, 1, 2, 2, 3])), model())


def test_several_inputs_are_left_to_keras() -> None:
    inputs = {"a": keras.Input((2,)), "b": keras.Input((2,))}
    two = keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Concatenate()([*inputs.values()])))
    two.compile("sgd", "sparse_categorical_crossentropy")
    arrays = Arrays({"a": X[:, :2], "b": X[:, 2:]}, np.zeros(5, int))
    assert row_shape(arrays) is None
    check_examples_fit_model(arrays, two)


def test_grey_images_have_a_channel() -> None:
    image = Arrays(np.zeros((2, 6, 5), np.uint8), np.zeros(2, int))
    assert row_shape(image) == (6, 5, 1)
    assert row_shape(Arrays(np.zeros((2, 6, 5)), np.zeros(2, int))) == (6, 5)


def test_classes_are_counted_over_all_parts() -> None:
    small, large = Arrays(X, np.zeros(5, int)), Arrays(X, np.arange(5))
    assert class_count(small, large, None) == 5
    assert class_count(small, Arrays(X, np.zeros(5))) is None
    assert class_count(tf.data.Dataset.from_tensor_slices((X, X)).batch(2)) is None
