"""Progress of minutes of work: a live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

PLAIN_EVERY_SECONDS = 10.0


class Counter:
    """Counts examples on standard error; a context manager around the work.

    Args:
      what: is being done.
      total: how many examples there are, or None.
      done: how many were done before.
      console: where to show it; None for standard error.
    """

    def __init__(
        self, what: str, total: int | None = None, done: int = 0, console: Console | None = None
    ) -> None:
        self._what = what
        self._total = total
        self._done = done
        self._console = console or Console(stderr=True)
        self._lock = threading.Lock()
        self._last = time.monotonic()
        self._live: Progress | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:,.0f} examples"),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
            )
            self._live.start()
            self._task = self._live.add_task(self._what, total=self._total, completed=self._done)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def add(self, count: int) -> None:
        """Adds to the number of examples that are done."""
        with self._lock:
            self._done += count
            now = time.monotonic()
            if self._live is not None:
                self._live.update(self._task, completed=self._done)
            elif now - self._last >= PLAIN_EVERY_SECONDS:
                self._last = now
                self._console.print(f"{self._what}: {self._said()}", highlight=False)

    def _said(self) -> str:
        if self._total is None:
            return f"{self._done:,} examples"
        return f"{self._done:,} of {self._total:,} examples"
