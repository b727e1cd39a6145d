"""How far apart two results are. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FLOOR = 1e-3
"""Values are compared relative to their size, but not to less than this: what is exactly zero in
theory (the gradient of a bias before a normalisation, say) is rounding in practice."""

TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 2e-2, "float16": 5e-3}
"""Allowed difference relative to the size of a value. N sums over parts of a batch are rounded in
another order than one sum over all of it: some hundred units of rounding in float32, some thousand
in float64, and five to ten where a sum has few terms that are rounded in 16 bits."""


@dataclass(frozen=True)
class Difference:
    """A value that is not the same in two results.

    Attributes:
      name: which value.
      size: largest absolute difference relative to the largest absolute value, or `inf` where the
        two cannot be compared or only one is finite.
      what: in words.
    """

    name: str
    size: float
    what: str


def relative_difference(expected: np.ndarray, actual: np.ndarray, floor: float = FLOOR) -> float:
    """Largest difference, relative to the largest value expected.

    Args:
      expected: numbers or booleans of any shape; NaN and infinity equal themselves.
      actual: the same shape, or the answer is infinity.
      floor: least size that a difference is divided by.

    Returns:
      0.0 or more; infinity if shapes differ or one side is not finite where the other is.
    """
    if expected.shape != actual.shape:
        return float("inf")
    if expected.size == 0:
        return 0.0
    a, b = expected.astype(np.float64), actual.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)):
        return float("inf")
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    size = max(float(np.max(np.abs(a[finite]))), floor)
    return float(np.max(np.abs(a[finite] - b[finite]))) / size


def compare(
    expected: dict[str, np.ndarray], actual: dict[str, np.ndarray], tolerance: float
) -> list[Difference]:
    """Every value that differs by more than the tolerance, in the order of `expected`.

    A value that only one of the two has is a difference.
    """
    found = [
        Difference(name, float("inf"), "is there on one side only")
        for name in [*expected, *actual]
        if (name in expected) != (name in actual)
    ]
    for name in expected.keys() & actual.keys():
        a, b = expected[name], actual[name]
        size = relative_difference(a, b)
        if not size <= tolerance:
            found.append(Difference(name, size, describe(a, b, size)))
    order = {name: place for place, name in enumerate([*expected, *actual])}
    return sorted(found, key=lambda difference: order[difference.name])


def describe(expected: np.ndarray, actual: np.ndarray, size: float) -> str:
    """A difference in words."""
    if expected.shape != actual.shape:
        return f"has the shape {actual.shape}, not {expected.shape}"
    if expected.ndim == 0 and expected.dtype.kind in "iu":
        return f"is {actual}, not {expected}"
    if not np.isfinite(size):
        return "is finite on one side only"
    return f"differs by {size:.1e} of its size"
