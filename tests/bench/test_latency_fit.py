"""The fit of latency and bandwidth against closed forms and NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tfdp.bench.latency_fit import fit_latency

SIZES = [1024 * 4**power for power in range(9)]


def test_a_line_is_found_exactly() -> None:
    fit = fit_latency(SIZES, [2e-4 + size / 3e9 for size in SIZES])
    assert fit is not None
    assert fit.latency_seconds == pytest.approx(2e-4, rel=1e-9)
    assert fit.bandwidth == pytest.approx(3e9, rel=1e-9)
    assert fit.latency_error == pytest.approx(0, abs=1e-12)
    assert fit.largest_deviation < 1e-12


def test_values_and_errors_are_those_of_weighted_least_squares() -> None:
    """`numpy.polyfit` weighs residuals, not their squares, and scales its covariance alike."""
    noise = np.random.default_rng(0).normal(1, 0.1, len(SIZES))
    seconds = (2e-4 + np.array(SIZES) / 3e9) * noise
    (slope, start), covariance = np.polyfit(SIZES, seconds, 1, w=1 / seconds, cov=True)
    fit = fit_latency(SIZES, seconds.tolist())
    assert fit is not None
    assert fit.latency_seconds == pytest.approx(start)
    assert fit.seconds_per_byte == pytest.approx(slope)
    assert fit.seconds_per_byte_error == pytest.approx(math.sqrt(covariance[0, 0]))
    assert fit.latency_error == pytest.approx(math.sqrt(covariance[1, 1]))
    worst = np.max(np.abs(seconds - start - slope * np.array(SIZES)) / seconds)
    assert fit.largest_deviation == pytest.approx(worst)


def test_small_sizes_decide_the_latency() -> None:
    """The largest size a fifth too slow: the latency must not move by more than a twentieth."""
    seconds = [2e-4 + size / 3e9 for size in SIZES]
    seconds[-1] *= 1.2
    fit = fit_latency(SIZES, seconds)
    assert fit is not None
    assert fit.latency_seconds == pytest.approx(2e-4, rel=0.05)


def test_two_sizes_give_a_line_without_errors_and_one_gives_none() -> None:
    fit = fit_latency([0, 1000], [1.0, 3.0])
    assert fit is not None
    assert (fit.latency_seconds, fit.seconds_per_byte) == (1.0, pytest.approx(2e-3))
    assert fit.latency_error is None
    assert fit.seconds_per_byte_error is None
    assert fit_latency([1000], [1.0]) is None
    assert fit_latency([1000, 1000], [1.0, 2.0]) is None


def test_time_that_does_not_grow_means_no_limit() -> None:
    fit = fit_latency([4, 4096], [1.0, 1.0])
    assert fit is not None
    assert fit.bandwidth == math.inf
