"""What a user's data function may return."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.data.originals import write_originals
from tfdp.config import DataConfig
from tfdp.data.arrays import Arrays
from tfdp.data.builder import as_training_data, load_data
from tfdp.errors import ConfigError, DataError

X = np.zeros((4, 2), np.float32)
Y = np.arange(4)


def dataset(rows: int = 4) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((X[:rows], Y[:rows])).batch(2)


def test_arrays() -> None:
    data = as_training_data((X, Y), source="m:f")
    assert isinstance(data.train, Arrays)
    assert data.validation is None
    assert np.array_equal(data.train.y, Y)


def test_arrays_with_weights_and_dicts() -> None:
    data = as_training_data(({"a": X}, {"b": Y}, np.ones(4)), source="m:f")
    assert isinstance(data.train, Arrays)
    assert data.train.sample_weight is not None


@pytest.mark.parametrize(
    "make",
    [
        lambda: ((X, Y), (X[:1], Y[:1])),
        lambda: [(X, Y), dataset(1)],
        lambda: (dataset(), dataset(1)),
    ],
)
def test_a_pair(make: Callable[[], Any]) -> None:
    data = as_training_data(make(), source="m:f")
    assert data.validation is not None
    rows = (
        data.validation.rows
        if isinstance(data.validation, Arrays)
        else sum(len(y) for _, y in data.validation.as_numpy_iterator())
    )
    assert rows == 1


def test_a_pair_without_validation() -> None:
    assert as_training_data(((X, Y), None), source="m:f").validation is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: None, "returned NoneType"),
        (lambda: X, "returned ndarray"),
        (lambda: (X, "labels"), r"a tuple of \(ndarray, str\)"),
        (lambda: (X, Y, Y, Y), "a tuple of"),
        (lambda: ((X, Y), (X,)), "a tuple of"),
        (lambda: (X[:0], Y[:0]), "no examples"),
        (lambda: ((X, Y), (X[:0], Y[:0])), "validation data of m:f: there are no examples"),
        (lambda: dataset().take(0), "is empty"),
        (lambda: dataset().filter(lambda x, y: False), "is empty"),
        (lambda: tf.data.Dataset.from_tensor_slices(X).batch(2), "not .x, y."),
        (lambda: dataset().unbatch(), "single values, not batches"),
        (lambda: dataset().map(lambda x, y: (x / 0, tf.debugging.check_numerics(x / 0, "bad"))),
         "reading the first batch failed: .*bad"),
    ],
)  # fmt: skip
def test_refuses(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_training_data(make(), source="m:f")


MODULE = """
import numpy as np

def rows(count, start=0):
    return np.arange(start, start + count, dtype="float32")[:, None], np.arange(count)

def both():
    return rows(4), rows(2)

def broken():
    return 1 / 0
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)  # load_function leaves it on the path: undone afterwards
    (tmp_path / "data_functions_of_a_test.py").write_text(MODULE)
    yield tmp_path
    sys.modules.pop("data_functions_of_a_test", None)


def config(function: str, **fields: Any) -> DataConfig:
    return DataConfig(function=f"data_functions_of_a_test:{function}", **fields)


def test_a_function_is_called_with_its_arguments(functions: Path) -> None:
    data = load_data(config("rows", arguments={"count": 3, "start": 7}), functions)
    assert isinstance(data.train, Arrays)
    assert data.train.x[:, 0].tolist() == [7, 8, 9]


def test_a_function_that_raises_is_named_with_file_and_line(functions: Path) -> None:
    with pytest.raises(DataError, match=r"broken raised ZeroDivisionError: .*test\.py:11\)"):
        load_data(config("broken"), functions)


def test_wrong_arguments_are_the_configs_fault(functions: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be called with .*'rows': 1"):
        load_data(config("rows", arguments={"rows": 1}), functions)


def test_a_fraction_is_held_out(functions: Path) -> None:
    data = load_data(config("rows", arguments={"count": 10}, validation_fraction=0.2), functions)
    assert isinstance(data.train, Arrays)
    assert isinstance(data.validation, Arrays)
    assert (data.train.rows, data.validation.rows) == (8, 2)


def test_a_fraction_conflicts_with_validation_of_ones_own(functions: Path) -> None:
    with pytest.raises(DataError, match="bring validation examples of their own"):
        load_data(config("both", validation_fraction=0.2), functions)


def test_fashion_mnist_is_validated_on_its_test_images(tmp_path: Path) -> None:
    x_train, _, _, y_test = write_originals(tmp_path, train=20, test=10)
    data = load_data(
        DataConfig(name="fashion_mnist", arguments={"directory": str(tmp_path)}), tmp_path
    )
    assert isinstance(data.train, Arrays)
    assert isinstance(data.validation, Arrays)
    assert np.array_equal(data.train.x, x_train)
    assert np.array_equal(data.validation.y, y_test)


def test_fashion_mnist_names_the_arguments_it_takes(tmp_path: Path) -> None:
    message = r'unknown argument of fashion_mnist "folder".*\(known: directory\)'
    with pytest.raises(ConfigError, match=message):
        load_data(DataConfig(name="fashion_mnist", arguments={"folder": "x"}), tmp_path)
