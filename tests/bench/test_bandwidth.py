"""nccl-tests' definitions, in numbers that can be checked by hand."""

from __future__ import annotations

import pytest

from tfdp.bench.bandwidth import Measurement, algorithm_bandwidth, bus_bandwidth


def test_algorithm_bandwidth_is_size_over_time() -> None:
    assert algorithm_bandwidth(1_000_000, 0.002) == pytest.approx(5e8)


@pytest.mark.parametrize(
    ("replicas", "factor"), [(2, 1.0), (3, 4 / 3), (4, 1.5), (8, 1.75), (1000, 1.998)]
)
def test_bus_bandwidth_of_an_all_reduce(replicas: int, factor: float) -> None:
    """A ring sends each byte 2 (n - 1) / n times over every link."""
    assert bus_bandwidth(10**6, 1e-3, replicas) == pytest.approx(factor * 1e9)


def test_median_and_quartiles_do_not_follow_one_slow_repetition() -> None:
    each = Measurement("ring", 4096, 2, (0.001, 0.002, 0.003, 0.004, 9.0))
    assert each.median_seconds == 0.003
    assert each.quartiles == (0.002, 0.004)
    assert each.algbw == pytest.approx(4096 / 0.003)
    assert each.busbw == each.algbw


def test_one_repetition_has_no_spread() -> None:
    assert Measurement("ring", 4, 2, (0.5,)).quartiles == (0.5, 0.5)
