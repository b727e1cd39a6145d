"""What a run shows on the terminal: a live line on a TTY, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from tfdp.training.telemetry import Report

PLAIN_EVERY_SECONDS = 10.0


class Display(Protocol):
    """Shows reports; a context manager around the training."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def step(self, report: Report) -> None:
        """Shows the state after a step."""

    def epoch(self, report: Report) -> None:
        """Shows the state after an epoch."""


class PlainDisplay:
    """A line for every epoch, and one every few seconds in between."""

    def __init__(
        self,
        console: Console,
        *,
        every_seconds: float = PLAIN_EVERY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._every_seconds = every_seconds
        self._clock = clock
        self._last = clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing to end."""

    def step(self, report: Report) -> None:
        """Prints a line if the last one is `every_seconds` old."""
        if self._clock() - self._last >= self._every_seconds:
            self._print(report, f"step {_out_of(report.step, report.steps)}")

    def epoch(self, report: Report) -> None:
        """Prints a line."""
        self._print(report, f"{report.step} steps")

    def _print(self, report: Report, steps: str) -> None:
        self._last = self._clock()
        _print_line(self._console, f"epoch {report.epoch}/{report.epochs}, {steps}", report)


class LiveDisplay:
    """A progress bar over all epochs, and a line that stays for each epoch."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[text]}", markup=False),  # with the rest, within 80 columns
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("building the graph", total=None, text="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def step(self, report: Report) -> None:
        """Moves the bar."""
        self._progress.update(
            self._task,
            description=f"epoch {report.epoch}/{report.epochs}",
            total=report.steps,
            completed=report.step,
            text=f"{_out_of(report.step, report.steps)} {describe(report, metrics=False)}",
        )

    def epoch(self, report: Report) -> None:
        """Leaves a line above the bar."""
        _print_line(self._progress.console, f"epoch {report.epoch}/{report.epochs}", report)


def choose_display(console: Console) -> PlainDisplay | LiveDisplay:
    """A live display where `console` is an interactive terminal, else a plain one."""
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)


def describe(report: Report, *, metrics: bool = True) -> str:
    """For example ``loss 0.3125, accuracy 0.8906, 1,234 images/s, 2 replicas, 0:41 left``."""
    parts = [f"loss {report.loss:.4f}"]
    if metrics:
        parts += [f"{name} {value:.4f}" for name, value in report.metrics.items()]
    if report.images_per_second is not None:
        parts.append(f"{report.images_per_second:,.0f} images/s")
    parts.append(f"{report.replicas} replica{'' if report.replicas == 1 else 's'}")
    if report.seconds_left is not None:
        parts.append(f"{_duration(report.seconds_left)} left")
    return ", ".join(parts)


def _print_line(console: Console, head: str, report: Report) -> None:
    console.print(f"{head}: {describe(report)}", soft_wrap=True, markup=False, highlight=False)


def summary_table(metrics: Mapping[str, float], files: Mapping[str, Path]) -> Table:
    """The end of a run: its last metrics, and where the files are."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in metrics.items():
        table.add_row(name.replace("val_", "validation ", 1), f"{value:.4f}")
    for name, path in files.items():
        table.add_row(name, str(path))
    return table


def _out_of(step: int, steps: int | None) -> str:
    return f"{step}" if steps is None else f"{step}/{steps}"


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
