"""What the reductions of `worker_cases` have to give, in NumPy's float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tests.collectives import worker_cases as cases


def check_sums(results: Sequence[dict[str, Any]], dtype: str) -> None:
    """Exact sums of small integers, on every replica of every worker."""
    replicas = results[0]["replicas"]
    contributions = [cases.small(dtype, replica) for replica in range(replicas)]
    for place in range(len(cases.SHAPES)):
        expected = np.sum([np.asarray(c[place], np.float64) for c in contributions], axis=0)
        for result in _all(results, f"sum {dtype}"):
            np.testing.assert_array_equal(result[place], expected)


def check_rounding(results: Sequence[dict[str, Any]], dtype: str) -> None:
    """Within (N - 1) eps sum|x| (Higham 2002, eq. 4.4), and the same bits everywhere."""
    replicas = results[0]["replicas"]
    values = [np.asarray(cases.rounded(dtype, r), np.float64) for r in range(replicas)]
    eps = float(ml_dtypes.finfo(cases.numpy_dtype(dtype)).eps)
    bound = (replicas - 1) * eps * np.sum(np.abs(values), axis=0)
    check_within(results, dtype, np.sum(values, axis=0), bound)


def check_within(
    results: Sequence[dict[str, Any]], dtype: str, exact: np.ndarray, bound: np.ndarray
) -> None:
    _check_found([result[0] for result in _all(results, f"rounding {dtype}")], exact, bound)


def check_gradients(results: Sequence[dict[str, Any]], transit: str, unit_roundoff: float) -> None:
    """Gradients were rounded to 16 bits on the way, within the bound of `compression`."""
    workers = len(results)
    devices = results[0]["replicas"] // workers
    for place, dtype in enumerate(("float32", "float64")):
        values = [np.asarray(cases.rounded(dtype, r), np.float64) for r in range(workers * devices)]
        inside = np.sum(np.reshape(values, (workers, devices, -1)), axis=1)
        relative = (1 + unit_roundoff) ** workers - 1 + 4 * devices * np.finfo("float32").eps
        bound = relative * np.sum(np.abs(inside), axis=0) + 2.0**-24
        found = [result[place] for result in _all(results, "gradients")]
        _check_found(found, np.sum(inside, axis=0), bound)
        short = found[0].astype(cases.numpy_dtype(transit)).astype(np.float64)
        assert short.tobytes() == found[0].tobytes(), "the sums did not travel in 16 bits"


def check_nothing_else_is_rounded(results: Sequence[dict[str, Any]]) -> None:
    """Integers, and the indices of sparse gradients."""
    replicas = range(results[0]["replicas"])
    integers = np.sum([cases.small("int32", r)[2] + 70_001 for r in replicas], axis=0)
    for result in _all(results, "integer gradients"):
        np.testing.assert_array_equal(result[0], integers)
    expected = np.zeros((cases.ROWS, 2))
    for replica in replicas:
        np.add.at(expected, *cases.slices(replica))
    for result in _all(results, "slices of gradients"):  # halves below 9 are exact in 8 bits
        np.testing.assert_array_equal(result, expected)


def check_rounded_fit(
    results: Sequence[dict[str, Any]], expected: Sequence[np.ndarray], unit_roundoff: float
) -> None:
    """The loss before is one device's; the weights come near, and are the same everywhere.

    Six steps of at most 0.5 * 0.1 / (1 - 0.9) each, with gradients rounded by 2 u.
    """
    for result in results:
        np.testing.assert_allclose(result["fit"][0], expected[0], rtol=1e-12)
        for weight, other, right in zip(result["fit"], results[0]["fit"], expected, strict=True):
            np.testing.assert_allclose(weight, right, atol=6 * 0.5 * 2 * unit_roundoff)
            assert weight.tobytes() == other.tobytes()
    moved = [np.abs(a - b).max() for a, b in zip(results[0]["fit"], expected, strict=True)]
    assert max(moved[1:]) > 1e-9, "the gradients of fit were not rounded"


def check_kept(found: Sequence[dict[str, Any]]) -> None:
    """`worker_cases.kept` on two workers."""
    for result in found:
        assert result["not when"].tobytes() == result["mine"].tobytes()
        np.testing.assert_allclose(result["when"], [2 / 3, 3e-5], rtol=2**-7)
        assert abs(result["when"][0] - 2 / 3) > 1e-4
        assert result["integers"].tolist() == [514, 140002]
        assert result["gathered"].tolist() == [257, 258]


def _check_found(found: Sequence[np.ndarray], exact: np.ndarray, bound: np.ndarray) -> None:
    assert len(found) > 1
    assert (np.abs(found[0] - exact) <= bound).all()
    for other in found[1:]:
        assert other.tobytes() == found[0].tobytes()


def check_mean(results: Sequence[dict[str, Any]]) -> None:
    replicas = results[0]["replicas"]
    for result in _all(results, "mean"):
        np.testing.assert_allclose(result[0], [(replicas - 1) / 2, 2.0], rtol=1e-15)


def check_large(results: Sequence[dict[str, Any]]) -> None:
    """Sums of integers below 2**24, exact in float32, in several buckets."""
    replicas = results[0]["replicas"]
    expected = np.sum(
        [[np.sum(each, dtype=np.float64) for each in cases.large(r)] for r in range(replicas)],
        axis=0,
    )
    ends = np.sum([[each[-3:] for each in cases.large(r)] for r in range(replicas)], axis=0)
    for result in _all(results, "large"):
        assert result[: len(cases.LARGE)] == [int(each) for each in expected]
        np.testing.assert_array_equal(result[len(cases.LARGE) :], ends)


def check_slices(results: Sequence[dict[str, Any]]) -> None:
    expected = np.zeros((cases.ROWS, 2))
    for replica in range(results[0]["replicas"]):
        np.add.at(expected, *cases.slices(replica))
    for result in _all(results, "slices"):
        np.testing.assert_array_equal(result, expected)


def check_fit(results: Sequence[dict[str, Any]], expected: Sequence[np.ndarray]) -> None:
    """As one device, and the same bits on all workers."""
    for result in results:
        for weight, other, right in zip(result["fit"], results[0]["fit"], expected, strict=True):
            assert weight.dtype == np.float64
            np.testing.assert_allclose(weight, right, rtol=1e-12, atol=1e-14)
            assert weight.tobytes() == other.tobytes()


def check_reductions_of_a_step(results: Sequence[dict[str, Any]]) -> None:
    """Rows with the loss's divisor; the loss to log; gradients, which fill one bucket; metrics."""
    assert [result["reductions"] for result in results] == [4] * len(results)


def check_reduction(found: Sequence[dict[str, Any]]) -> None:
    """`worker_cases.reduction` on two workers."""
    for worker, result in enumerate(found):
        assert result["rank"] in (worker, None)
        assert result["empty"].shape == (0,)
        assert result["empty gather"].shape == (0, 2)
        np.testing.assert_array_equal(result["when"], [4.5, 7.5])
        np.testing.assert_array_equal(result["eager"], [4.5, 7.5])
        np.testing.assert_array_equal(result["not when"], np.array([1.5, 2.5]) * (worker + 1))
        np.testing.assert_array_equal(result["eager gather"], [1.5, 3.0, 5.0])
        flags, rows, halves = result["gathered"]
        assert flags.tolist() == [True, False, True, True, False]
        assert rows.tolist() == [[1, 8, 9], [1, 8, 9]]
        assert halves.tolist() == [0.5, 1.5, 1.5]


def check_several(found: Sequence[Sequence[np.ndarray]]) -> None:
    """`worker_cases.several` summed: small integers, exact in float32."""
    given = [[each.numpy() for each in cases.several(rank)] for rank in range(len(found))]
    for result in found:
        for place, total in enumerate(result):
            exact = np.sum([each[place].astype(np.float64) for each in given], axis=0)
            np.testing.assert_array_equal(total, exact)


def _all(results: Sequence[dict[str, Any]], key: str) -> list[Any]:
    """The entries of all replicas, in their order."""
    return [each for result in results for each in result[key]]
