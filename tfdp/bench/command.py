"""Runs a benchmark for the command line: tables on standard output, JSON in a file."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from tfdp.bench.allreduce import AllReduceOptions, measure
from tfdp.bench.input import InputOptions, measure_input
from tfdp.bench.input_report import InputReport
from tfdp.errors import RunError

_WIDTH = 110
"""Of tables that go to a file or a pipe."""


def run_allreduce(options: AllReduceOptions, json_file: Path | None) -> int:
    """Measures, prints, and returns the exit code 0.

    Raises:
      RunError: the file cannot be written.
      TfdpError: see `measure`.
    """
    if json_file is not None:
        _check_writable(json_file)
    report = measure(options)
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


def _check_writable(path: Path) -> None:
    """Before minutes of measuring rather than after."""
    try:
        with path.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}.") from None
