"""A number measured several times: its median, and how far the single ones lie apart."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfdp.bench.bandwidth import quartiles


@dataclass(frozen=True)
class Spread:
    """Repetitions of one number.

    Attributes:
      values: in the order in which they were measured.
    """

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median."""
        return statistics.median(self.values)

    def text(self, digits: int = 2, factor: float = 1.0) -> str:
        """ "median (first quartile to third quartile)"."""
        low, high = quartiles(self.values)
        numbers = [f"{number * factor:.{digits}f}" for number in (self.median, low, high)]
        return f"{numbers[0]} ({numbers[1]} to {numbers[2]})"

    def to_json(self) -> dict[str, Any]:
        """Median, quartiles and all values."""
        return {
            "median": self.median,
            "quartiles": list(quartiles(self.values)),
            "values": list(self.values),
        }


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> Spread:
    """The ratio of each pair that was measured in turn."""
    return Spread(tuple(a / b for a, b in zip(numerators, denominators, strict=True)))
