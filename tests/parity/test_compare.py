"""The comparison, against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tfdp.parity.compare import compare, relative_difference


@pytest.mark.parametrize(
    ("expected", "actual", "answer"),
    [
        ([4.0, 1.0], [4.0, 1.0], 0.0),
        ([4.0, 1.0], [4.0, 2.0], 0.25),  # of the largest value, not of its own
        ([-4.0, 1.0], [-3.0, 1.0], 0.25),
        ([1e-9], [2e-9], 1e-6),  # of the floor, 1e-3
        ([0.0], [1e-3], 1.0),
        ([], [], 0.0),
        ([1, 2, 4], [1, 2, 3], 0.25),
        ([True, False], [True, True], 1.0),
        ([np.nan, 2.0], [np.nan, 1.0], 0.5),
        ([np.inf, 2.0], [np.inf, 2.0], 0.0),
        ([np.nan], [np.nan], 0.0),
        ([np.inf], [-np.inf], np.inf),
        ([1.0], [np.nan], np.inf),
        ([np.nan], [1.0], np.inf),
        ([1.0], [1.0, 1.0], np.inf),
        ([[1.0]], [1.0], np.inf),
    ],
)
def test_relative_difference(expected: list, actual: list, answer: float) -> None:
    assert relative_difference(np.array(expected), np.array(actual)) == pytest.approx(answer)


def test_the_tolerance_is_the_largest_difference_that_is_allowed() -> None:
    one, two = {"w": np.array([1.0])}, {"w": np.array([1.125])}
    assert not compare(one, two, 0.125)
    (found,) = compare(one, two, 0.12)
    assert (found.name, found.size, found.what) == ("w", 0.125, "differs by 1.2e-01 of its size")


def test_a_value_that_one_side_lacks_differs() -> None:
    one, two = {"a": np.zeros(1), "b": np.zeros(1)}, {"b": np.zeros(1), "c": np.zeros(1)}
    assert [d.name for d in compare(one, two, 1.0)] == ["a", "c"]


def test_words_for_what_cannot_be_measured() -> None:
    one = {"shape": np.zeros((2, 3)), "finite": np.zeros(1), "count": np.array(0)}
    two = {"shape": np.zeros(6), "finite": np.array([np.nan]), "count": np.array(3)}
    assert [d.what for d in compare(one, two, 1.0)] == [
        "has the shape (6,), not (2, 3)",
        "is finite on one side only",
        "is 3, not 0",
    ]
