"""What `tfdp bench allreduce` prints and writes."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

import tfdp
from tfdp.bench.bandwidth import Measurement
from tfdp.bench.latency_fit import LatencyFit, fit_latency
from tfdp.bench.plotting import new_figure, save
from tfdp.bench.sizes import describe_size
from tfdp.bench.spread import Spread

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Ratio:
    """How many times as fast a reducer is as a peer.

    Attributes:
      reducer: its name.
      peer: the other's.
      size_bytes: of the buffer.
      values: one for each pair of turns.
    """

    reducer: str
    peer: str
    size_bytes: int
    values: Spread


@dataclass(frozen=True)
class AllReduceReport:
    """All measurements of one run.

    Attributes:
      workers: processes.
      devices: replicas in each.
      measurements: by reducer, then by size.
      refused: reducers that cannot run here, each with the reason.
      ratios: to peers, where there were some.
    """

    workers: int
    devices: int
    measurements: tuple[Measurement, ...]
    refused: dict[str, str]
    ratios: tuple[Ratio, ...] = ()

    def by_reducer(self) -> Iterator[tuple[str, list[Measurement]]]:
        """The measurements of each reducer, in their order."""
        for name in dict.fromkeys(each.reducer for each in self.measurements):
            yield name, [each for each in self.measurements if each.reducer == name]

    def fits(self) -> dict[str, LatencyFit | None]:
        """Latency and bandwidth of each reducer, fitted to the medians."""
        return {
            name: fit_latency(
                [each.size_bytes for each in measured], [each.median_seconds for each in measured]
            )
            for name, measured in self.by_reducer()
        }

    def tables(self) -> list[Table]:
        """For a terminal: the sizes of every reducer, and the fits."""
        return [self._sizes(), self._fits(), *([self._ratios()] if self.ratios else [])]

    def to_json(self) -> str:
        """Everything, with the seconds of every repetition."""
        return json.dumps(
            {
                "version": FORMAT_VERSION,
                "machine": machine(),
                "workers": self.workers,
                "devices_per_worker": self.devices,
                "measurements": [_measurement(each) for each in self.measurements],
                "fits": {name: _fit(fit) for name, fit in self.fits().items()},
                "refused": self.refused,
                "ratios": [
                    {
                        "reducer": each.reducer,
                        "over": each.peer,
                        "size_bytes": each.size_bytes,
                        **each.values.to_json(),
                    }
                    for each in self.ratios
                ],
            },
            indent=2,
        )

    def _sizes(self) -> Table:
        table = Table(title=f"All-reduce, {self.workers} x {self.devices} replicas, float32")
        for heading in ("reducer", "size", "median ms", "quartiles ms", "algbw GB/s", "busbw GB/s"):
            _add_column(table, heading)
        for name, measured in self.by_reducer():
            for each in measured:
                low, high = each.quartiles
                table.add_row(
                    name,
                    describe_size(each.size_bytes),
                    f"{each.median_seconds * 1e3:.3f}",
                    f"{low * 1e3:.3f} to {high * 1e3:.3f}",
                    f"{each.algbw / 1e9:.3f}",
                    f"{each.busbw / 1e9:.3f}",
                )
            table.add_section()
        return table

    def plot(self, path: Path) -> None:
        """Time and bus bandwidth by size, both axes logarithmic.

        Raises:
          RunError: matplotlib is missing, or the file cannot be written.
        """
        figure, ((left, right),) = new_figure(2)
        for name, measured in self.by_reducer():
            sizes = [each.size_bytes / 1024**2 for each in measured]
            left.plot(sizes, [each.median_seconds * 1e3 for each in measured], "o-", label=name)
            left.fill_between(
                sizes,
                [each.quartiles[0] * 1e3 for each in measured],
                [each.quartiles[1] * 1e3 for each in measured],
                alpha=0.2,
            )
            right.plot(sizes, [each.busbw / 1e9 for each in measured], "o-", label=name)
        left.set(xscale="log", yscale="log", xlabel="MB", ylabel="ms, median and quartiles")
        right.set(xscale="log", yscale="log", xlabel="MB", ylabel="busbw GB/s")
        left.legend()
        figure.suptitle(f"tfdp bench allreduce: {self.workers} x {self.devices} replicas")
        save(figure, path)

    def _ratios(self) -> Table:
        table = Table(title="times as fast, median (quartiles) of pairs in turn")
        for heading in ("reducer", "over", "size", "ratio", "range"):
            _add_column(table, heading)
        for each in self.ratios:
            values = each.values.values
            table.add_row(
                each.reducer,
                each.peer,
                describe_size(each.size_bytes),
                each.values.text(2),
                f"{min(values):.2f} to {max(values):.2f}",
            )
        return table

    def _fits(self) -> Table:
        table = Table(title="time = latency + size / bandwidth (± standard error)")
        for heading in ("reducer", "latency ms", "ms per MB", "GB/s", "largest deviation"):
            _add_column(table, heading)
        for name, fit in self.fits().items():
            if fit is not None:
                table.add_row(
                    name,
                    _with_error(fit.latency_seconds, fit.latency_error, 1e3),
                    _with_error(fit.seconds_per_byte, fit.seconds_per_byte_error, 1e3 * 1024**2),
                    f"{fit.bandwidth / 1e9:.3f}",
                    "" if fit.latency_error is None else f"{fit.largest_deviation:.0%}",
                )
        return table


def _add_column(table: Table, heading: str) -> None:
    table.add_column(heading, justify="left" if heading == "reducer" else "right", no_wrap=True)


def _with_error(value: float, error: float | None, factor: float) -> str:
    text = f"{value * factor:.3f}"
    return text if error is None else f"{text} ± {error * factor:.3f}"


def _measurement(each: Measurement) -> dict[str, Any]:
    low, high = each.quartiles
    return {
        "reducer": each.reducer,
        "size_bytes": each.size_bytes,
        "replicas": each.replicas,
        "median_seconds": each.median_seconds,
        "quartile_seconds": [low, high],
        "algbw_bytes_per_second": each.algbw,
        "busbw_bytes_per_second": each.busbw,
        "seconds": list(each.seconds),
    }


def _fit(fit: LatencyFit | None) -> dict[str, float | None] | None:
    if fit is None:
        return None
    return {
        "latency_seconds": fit.latency_seconds,
        "latency_error": fit.latency_error,
        "seconds_per_byte": fit.seconds_per_byte,
        "seconds_per_byte_error": fit.seconds_per_byte_error,
        "largest_deviation": fit.largest_deviation,
    }


def machine() -> dict[str, Any]:
    """What was measured on."""
    return {
        "tfdp": tfdp.__version__,
        "python": platform.python_version(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
    }
