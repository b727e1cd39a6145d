"""Writes in a thread, one thing after the other, and lets no failure pass unnoticed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class BackgroundWriter:
    """Runs one job at a time beside the training.

    A failure is raised where the next job is handed in, or by `wait`.

    Args:
      in_background: False runs every job at once.
    """

    def __init__(self, in_background: bool = True) -> None:
        self._in_background = in_background
        self._executor: ThreadPoolExecutor | None = None
        self._running: Future[Any] | None = None

    def run(self, job: Callable[[], Any]) -> None:
        """Waits for the job before, then begins this one.

        Raises:
          Exception: what the job before, or without a background this one, has raised.
        """
        self.wait()
        if not self._in_background:
            job()
            return
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._running = self._executor.submit(job)

    def wait(self) -> None:
        """Waits until nothing runs.

        Raises:
          Exception: what the job has raised.
        """
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def close(self) -> None:
        """Waits for the job that runs, whatever becomes of it, and ends the thread."""
        if self._executor is not None:
            self._executor.shutdown(wait=True)
            self._executor = None
        self._running = None
