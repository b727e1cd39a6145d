"""What counts as examples, and which message refuses what does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tfdp.data.arrays import Arrays, check_images, check_labels, split_off_validation
from tfdp.errors import DataError


def test_dicts_lists_and_weights_are_examples() -> None:
    arrays = Arrays({"a": [[1.0], [2.0]], "b": np.zeros((2, 3))}, [0, 1], sample_weight=[1.0, 0.5])
    assert arrays.rows == 2
    assert arrays.x["a"].shape == (2, 1)


@pytest.mark.parametrize(
    ("x", "y", "weight", "message"),
    [
        (np.zeros((0, 4)), np.zeros(0), None, r"no examples \(0 rows\)"),
        (np.zeros((3, 4)), np.zeros(2), None, "x has 3 rows, but y has 2"),
        ({"a": np.zeros(3), "b": np.zeros(4)}, np.zeros(3), None, r"x\['b'\] has 4"),
        (np.zeros((3, 4)), np.zeros(3), np.ones(1), "sample_weight has 1"),
        (np.float32(1), np.zeros(1), None, "x is a single value"),
        ({}, np.zeros(3), None, "x is an empty dict"),
        ([[1, 2], [3]], np.zeros(2), None, "cannot be made an array"),
        (np.array([{}, {}]), np.zeros(2), None, "dtype object"),
        (np.zeros(2, complex), np.zeros(2), None, "dtype complex128"),
        (np.array([[1.0], [np.nan], [np.inf]]), np.zeros(3), None, "in 2 of 3 rows, .* row 1"),
        (np.zeros(3), np.array([0, 0, -np.inf]), None, "y has values .* in 1 of 3 rows, .* row 2"),
    ],
)
def test_refuses(x: Any, y: Any, weight: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"^the place: .*{message}"):
        Arrays(x, y, weight, place="the place")


def test_infinities_of_both_signs_and_huge_values_do_not_deceive() -> None:
    with pytest.raises(DataError, match="not finite"):
        Arrays(np.array([np.inf, -np.inf]), np.zeros(2))
    assert Arrays(np.array([1.7e308, 1.7e308]), np.zeros(2)).rows == 2


@pytest.mark.parametrize("shape", [(2, 5, 5), (2, 5, 5, 3)])
def test_images_may_be_grey_or_have_channels(shape: tuple[int, ...]) -> None:
    check_images(np.zeros(shape, np.uint8), "here")


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 25)), r"float64 of shape \(2, 25\), not images"),
        (np.zeros((2, 5, 5), "S1"), "not images"),
        ({"a": np.zeros((2, 5, 5))}, "x is dict"),
        (np.zeros((2, 0, 5)), "no pixels"),
    ],
)
def test_refuses_what_is_no_image(x: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_images(x, "here")


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_labels_go_from_0_to_one_less_than_the_classes(shape: tuple[int, ...]) -> None:
    y = np.array([0, 1, 2, 1]).reshape(shape)
    check_labels(y, 3, "here")
    with pytest.raises(DataError, match=r"label 2 in row 2 is out of range: .* go from 0 to 1"):
        check_labels(y, 2, "here")


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([0, -1, -1]), r"label -1 in row 1 .*\(2 labels are outside\)"),
        (np.array([0.0, 1.0]), "labels are float64; expected integers in 0..2"),
        (np.zeros((2, 3), int), r"shape \(2, 3\); expected one class number"),
        ({"a": np.zeros(2)}, "labels are dict"),
    ],
)
def test_refuses_labels(y: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_labels(y, 3, "here")


def test_the_split_divides_the_rows_and_repeats() -> None:
    arrays = Arrays(np.arange(10)[:, None], np.arange(10), np.arange(10.0))
    train, validation = split_off_validation(arrays, 0.3, seed=1)
    assert (train.rows, validation.rows) == (7, 3)
    assert sorted([*train.y, *validation.y]) == list(range(10))
    assert np.array_equal(train.x[:, 0], train.y)
    assert np.array_equal(validation.sample_weight, validation.y)
    again = split_off_validation(arrays, 0.3, seed=1)[1]
    assert np.array_equal(validation.y, again.y)
    others = {tuple(split_off_validation(arrays, 0.3, seed=seed)[1].y) for seed in range(5)}
    assert len(others) > 1


@pytest.mark.parametrize("fraction", [0.01, 0.99])
def test_a_split_leaves_rows_for_both(fraction: float) -> None:
    with pytest.raises(DataError, match="for training and"):
        split_off_validation(Arrays(np.zeros((10, 1)), np.zeros(10)), fraction, seed=0)
