"""What a timed all-reduce says about bandwidth, by the definitions of NVIDIA's nccl-tests.

Source: nccl-tests, doc/PERFORMANCE.md, "Bandwidth". With S bytes in each replica's buffer, n
replicas and a time t:

* algorithm bandwidth, algbw = S / t;
* bus bandwidth, busbw = algbw * 2 (n - 1) / n for an all-reduce. It is what each replica's link
  would carry in the best algorithm, so it can be compared with the link's speed whatever n.

Like nccl-tests, 1 GB/s is 10**9 bytes a second, while a buffer of 1 kB has 1024 bytes.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Measurement:
    """One reducer at one size.

    Attributes:
      reducer: its name, with its compression if it has one, as in "mpi+bf16".
      size_bytes: of the buffer that each replica contributes, S above.
      replicas: n above.
      seconds: of every repetition; of several workers the slowest.
    """

    reducer: str
    size_bytes: int
    replicas: int
    seconds: tuple[float, ...]

    @property
    def median_seconds(self) -> float:
        """The median over the repetitions."""
        return statistics.median(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """First and third quartile of the repetitions, in seconds."""
        return quartiles(self.seconds)

    @property
    def algbw(self) -> float:
        """Algorithm bandwidth at the median time, bytes a second."""
        return algorithm_bandwidth(self.size_bytes, self.median_seconds)

    @property
    def busbw(self) -> float:
        """Bus bandwidth at the median time, bytes a second."""
        return bus_bandwidth(self.size_bytes, self.median_seconds, self.replicas)


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """First and third quartile of some values, at least one."""
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def algorithm_bandwidth(size_bytes: int, seconds: float) -> float:
    """S / t, bytes a second."""
    return size_bytes / seconds


def bus_bandwidth(size_bytes: int, seconds: float, replicas: int) -> float:
    """S / t * 2 (n - 1) / n, bytes a second."""
    return algorithm_bandwidth(size_bytes, seconds) * 2 * (replicas - 1) / replicas
