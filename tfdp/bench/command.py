"""Runs a benchmark for the command line: tables on standard output, JSON in a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tfdp.bench.allreduce import AllReduceOptions, measure
from tfdp.bench.allreduce_peers import measure_beside_peers
from tfdp.bench.hosts import HostsOptions, measure_hosts
from tfdp.bench.hosts_report import HostsReport
from tfdp.bench.input import InputOptions, measure_input
from tfdp.bench.input_report import InputReport
from tfdp.bench.peers.compare import PeersOptions, PeersReport, compare_peers
from tfdp.bench.plotting import check_can_plot
from tfdp.bench.scaling import ScalingOptions, measure_scaling
from tfdp.bench.scaling_report import ScalingReport
from tfdp.bench.timeline import TimelineOptions, measure_timeline
from tfdp.bench.timeline_report import TimelineReport
from tfdp.errors import RunError

_WIDTH = 110
"""Of tables that go to a file or a pipe."""


def run_allreduce(
    options: AllReduceOptions,
    json_file: Path | None,
    picture: Path | None = None,
    *,
    peers: bool = False,
    peer_python: str | None = None,
) -> int:
    """Measures, prints, and returns the exit code 0.

    Raises:
      RunError: the file cannot be written.
      TfdpError: see `measure`.
    """
    _check_files(json_file, picture)
    report = measure_beside_peers(options, peer_python, _say) if peers else measure(options)
    if picture is not None:
        report.plot(picture)
    if json_file is not None:
        json_file.write_text(report.to_json() + "\n", encoding="utf-8")
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    for table in report.tables():
        console.print(table)
    for name, reason in report.refused.items():
        console.print(
            f"not measured: {name}: {reason}", markup=False, highlight=False, soft_wrap=True
        )
    return 0


def run_input(options: InputOptions, json_file: Path | None) -> int:
    """Measures, prints, and returns the exit code 0.

    Raises:
      RunError: the file cannot be written.
      TfdpError: see `measure_input`.
    """
    if json_file is not None:
        _check_writable(json_file)
    report = InputReport(measure_input(options, lambda line: print(line, file=sys.stderr)))
    if json_file is not None:
        json_file.write_text(report.to_json() + "\n", encoding="utf-8")
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    for table in report.tables():
        console.print(table)
    for line in report.lines():
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return 0


def run_scaling(options: ScalingOptions, json_file: Path | None, picture: Path | None) -> int:
    """Measures, prints, and returns the exit code 0.

    Raises:
      RunError: a file cannot be written, or matplotlib is missing for the picture.
      TfdpError: see `measure_scaling`.
    """
    _check_files(json_file, picture)
    report = ScalingReport(options, measure_scaling(options, _say))
    if json_file is not None:
        json_file.write_text(report.to_json() + "\n", encoding="utf-8")
    if picture is not None:
        report.plot(picture)
    _print([report.table()], report.lines())
    return 0


def run_peers(options: PeersOptions, json_file: Path | None) -> int:
    """Measures, prints, and returns the exit code 0.

    Raises:
      RunError: the file cannot be written.
      TfdpError: see `compare_peers`.
    """
    _check_files(json_file)
    report = PeersReport(options, *compare_peers(options, _say))
    if json_file is not None:
        json_file.write_text(report.to_json() + "\n", encoding="utf-8")
    _print(report.tables(), report.lines())
    return 0


def run_timeline(
    options: TimelineOptions, json_file: Path | None, trace: Path | None, picture: Path | None
) -> int:
    """Measures, prints, and returns the exit code 0.

    Raises:
      RunError: a file cannot be written, or matplotlib is missing for the picture.
      TfdpError: see `measure_timeline`.
    """
    _check_files(json_file, picture)
    _check_files(trace)
    report = TimelineReport(options, measure_timeline(options, _say))
    if json_file is not None:
        json_file.write_text(report.to_json() + "\n", encoding="utf-8")
    if trace is not None:
        trace.write_text(report.trace() + "\n", encoding="utf-8")
    if picture is not None:
        report.plot(picture)
    _print([report.table()], report.lines())
    return 0


def run_hosts(options: HostsOptions, json_file: Path | None) -> int:
    """Measures, prints, and returns the exit code 0.

    Raises:
      RunError: the file cannot be written, or network namespaces cannot be had.
      TfdpError: see `measure_hosts`.
    """
    _check_files(json_file)
    report = HostsReport(options, *measure_hosts(options, _say))
    if json_file is not None:
        json_file.write_text(report.to_json() + "\n", encoding="utf-8")
    _print([report.table()], report.lines())
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _print(tables: Iterable[Table], lines: Iterable[str]) -> None:
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    for table in tables:
        console.print(table)
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _check_files(json_file: Path | None, picture: Path | None = None) -> None:
    if picture is not None:
        check_can_plot()
    for path in (json_file, picture):
        if path is not None:
            _check_writable(path)


def _check_writable(path: Path) -> None:
    """Before minutes of measuring rather than after."""
    try:
        with path.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}.") from None
