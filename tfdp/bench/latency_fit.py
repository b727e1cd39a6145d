"""Latency and bandwidth of a reducer: the line t = latency + size / bandwidth.

This is Hockney's model (R. Hockney, "The communication challenge for MPP", Parallel Computing 20,
1994). The sizes span five orders of magnitude, so the squares of the *relative* errors are summed:
otherwise the largest size alone would decide, and the latency would mean nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LatencyFit:
    """The line that fits best, with the standard errors of its parameters.

    Attributes:
      latency_seconds: time of an empty buffer.
      latency_error: its standard error; None for two sizes, through which any line fits.
      seconds_per_byte: 1 / bandwidth.
      seconds_per_byte_error: its standard error; None for two sizes.
      largest_deviation: of a measured time from the line, relative to the time.
    """

    latency_seconds: float
    latency_error: float | None
    seconds_per_byte: float
    seconds_per_byte_error: float | None
    largest_deviation: float

    @property
    def bandwidth(self) -> float:
        """Bytes a second of a buffer so large that latency does not count."""
        return 1 / self.seconds_per_byte if self.seconds_per_byte > 0 else math.inf


def fit_latency(sizes: Sequence[float], seconds: Sequence[float]) -> LatencyFit | None:
    """Weighted least squares with the weights 1 / t**2.

    Args:
      sizes: bytes, as many as `seconds`.
      seconds: positive.

    Returns:
      The fit, or None where there are fewer than two different sizes.
    """
    if len(set(sizes)) < 2:
        return None
    weights = [1 / t**2 for t in seconds]
    total = sum(weights)
    middle = sum(w * s for w, s in zip(weights, sizes, strict=True)) / total
    mean = sum(w * t for w, t in zip(weights, seconds, strict=True)) / total
    spread = sum(w * (s - middle) ** 2 for w, s in zip(weights, sizes, strict=True))
    slope = (
        sum(w * (s - middle) * t for w, s, t in zip(weights, sizes, seconds, strict=True)) / spread
    )
    start = mean - slope * middle
    deviations = [(t - start - slope * s) / t for s, t in zip(sizes, seconds, strict=True)]
    start_error = slope_error = None
    if len(sizes) > 2:
        variance = sum(d**2 for d in deviations) / (len(sizes) - 2)
        slope_error = math.sqrt(variance / spread)
        start_error = math.sqrt(variance * (1 / total + middle**2 / spread))
    return LatencyFit(start, start_error, slope, slope_error, max(abs(d) for d in deviations))
