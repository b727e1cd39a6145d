"""The launcher's side of the watchdog."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from tfdp.launcher import watchdog_program

_EXIT_SECONDS = 10.0


class Watchdog:
    """A process that outlives this one for a moment, to end worker groups that were left behind.

    Leaving the context ends it; groups that are then still watched are ended too.
    """

    def __enter__(self) -> Watchdog:
        program = [sys.executable, "-I", "-S", str(Path(watchdog_program.__file__))]
        # In a session of its own: what the terminal sends to this process does not reach it.
        self._process = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )
        return self

    def watch(self, group: int) -> None:
        """Ends this process group when the launcher dies."""
        self._say(f"+{group}")

    def forget(self, group: int) -> None:
        """The group has ended; its number may come to belong to somebody else."""
        self._say(f"-{group}")

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        # If it was killed, the workers still die with their parent where Linux runs.
        with contextlib.suppress(OSError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
