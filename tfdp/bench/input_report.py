"""What `tfdp bench input` prints and writes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from tfdp.bench.bandwidth import quartiles
from tfdp.bench.input import Comparison, InputMeasurement, linear_deviation
from tfdp.bench.report import machine

FORMAT_VERSION = 1

_MEGABYTE = 1024**2
_FLAT_MEGABYTES = 1.0
"""Growth in an epoch that counts as none: allocators breathe."""


@dataclass(frozen=True)
class InputReport:
    """All measurements of one run."""

    measurements: Sequence[InputMeasurement]

    def tables(self) -> list[Table]:
        """For a terminal: speeds against plain tf.data, and everything else."""
        return [self._speeds(), self._rest()]

    def lines(self) -> Iterator[str]:
        """In words: whether costs grow with the data alone, where several sizes were measured."""
        for name in dict.fromkeys(each.name for each in self.measurements):
            sizes = [each for each in self.measurements if each.name == name]
            if len({each.rows for each in sizes}) > 1:
                costs = ", ".join(
                    f"{each.rows:,} rows: {_cost(each) * 1e6:.2f} s" for each in sizes
                )
                yield (
                    f"{name}: seconds for 10^6 rows at {costs}; "
                    f"they differ by a factor of {linear_deviation(sizes):.2f}"
                )

    def to_json(self) -> str:
        """Everything, with the seconds of every repetition."""
        return json.dumps(
            {
                "version": FORMAT_VERSION,
                "machine": machine(),
                "measurements": [_measurement(each) for each in self.measurements],
            },
            indent=2,
        )

    def _speeds(self) -> Table:
        table = Table(title="Input: examples/s of tfdp and of plain tf.data, in turn")
        headings = ("source", "rows", "pipelines", "tfdp", "tf.data", "tfdp / tf.data", "quartiles")
        for heading in headings:
            _add_column(table, heading)
        for each in self.measurements:
            for compared in each.comparisons:
                low, high = quartiles(compared.ratios)
                table.add_row(
                    each.name,
                    f"{each.rows:,}",
                    str(compared.pipelines),
                    f"{each.rows / _middle(compared.tfdp_seconds):,.0f}",
                    f"{each.rows / _middle(compared.bare_seconds):,.0f}",
                    f"{compared.ratio:.2f}",
                    f"{low:.2f} to {high:.2f}",
                )
            table.add_section()
        return table

    def _rest(self) -> Table:
        table = Table(title="One pipeline: first batch, what a stage adds to an epoch, memory")
        headings = (
            *("source", "rows", "load s", "first ms (tf.data)"),
            *("read", "decode", "map", "copy ms", "limit", "MB", "MB/epoch"),
        )
        for heading in headings:
            _add_column(table, heading)
        for each in self.measurements:
            first = each.first_batch
            grown = each.growth_per_epoch / _MEGABYTE
            table.add_row(
                each.name,
                f"{each.rows:,}",
                f"{each.load_seconds:.2f}",
                f"{first['tfdp'] * 1e3:.0f} ({first['bare'] * 1e3:.0f})",
                *(f"{seconds * 1e3:.0f}" for seconds in each.stages.values()),
                each.limit,
                f"{each.memory[-1] / _MEGABYTE:.0f}",
                f"{grown:+.1f}" + (" flat" if grown <= _FLAT_MEGABYTES else ""),
            )
        return table


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _cost(each: InputMeasurement) -> float:
    return min(each.comparisons[0].tfdp_seconds) / each.rows


def _add_column(table: Table, heading: str) -> None:
    table.add_column(heading, justify="left" if heading in ("source", "limit") else "right")


def _measurement(each: InputMeasurement) -> dict[str, Any]:
    return {
        "source": each.name,
        "rows": each.rows,
        "load_seconds": each.load_seconds,
        "comparisons": [_comparison(compared) for compared in each.comparisons],
        "first_batch_seconds": each.first_batch,
        "stage_seconds": each.stages,
        "limit": each.limit,
        "memory_bytes": list(each.memory),
        "memory_growth_bytes_per_epoch": each.growth_per_epoch,
    }


def _comparison(compared: Comparison) -> dict[str, Any]:
    return {
        "pipelines": compared.pipelines,
        "ratio": compared.ratio,
        "ratios": compared.ratios,
        "tfdp_seconds": list(compared.tfdp_seconds),
        "bare_seconds": list(compared.bare_seconds),
    }
