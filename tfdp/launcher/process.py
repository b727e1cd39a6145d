"""One worker process, the leader of a process group of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO, cast

from tfdp.launcher import guard
from tfdp.launcher.output import OutputReader, Printer

_READ_SECONDS = 5.0


@dataclass(frozen=True)
class WorkerSpec:
    """How to start a worker.

    Attributes:
      index: its index in the group.
      command: program and arguments; no shell sees them.
      environ: all its environment variables.
      log: the file that gets its output.
    """

    index: int
    command: Sequence[str]
    environ: Mapping[str, str]
    log: Path


@dataclass(frozen=True)
class Exit:
    """A worker has ended.

    Attributes:
      index: which.
      code: its exit code, or minus the number of the signal that ended it.
      at: `time.monotonic` of that moment.
    """

    index: int
    code: int
    at: float

    @property
    def status(self) -> int:
        """The code as a shell has it: 128 + number for a signal."""
        return self.code if self.code >= 0 else 128 - self.code

    def describe(self) -> str:
        """For example ``exit code 3`` or ``signal 9 (SIGKILL)``."""
        if self.code >= 0:
            return f"exit code {self.code}"
        try:
            return f"signal {-self.code} ({signal.Signals(-self.code).name})"
        except ValueError:
            return f"signal {-self.code}"


class WorkerProcess:
    """A running worker. Its end is put into `events` as an `Exit`.

    It is not reaped until `reap`: until then nobody else can get the number of its group, so
    signals cannot reach a stranger.
    """

    def __init__(self, spec: WorkerSpec, printer: Printer | None, events: SimpleQueue[Any]) -> None:
        self.spec = spec
        program = [sys.executable, "-I", "-S", str(Path(guard.__file__)), str(os.getpid())]
        self._process = subprocess.Popen(
            [*program, *spec.command],
            env=dict(spec.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        pipe = cast("BinaryIO", self._process.stdout)
        self.output = OutputReader(pipe, spec.log, f"worker {spec.index}", printer)
        self.output.start()
        self._events = events
        self._waiter = threading.Thread(target=self._wait, name="waiter", daemon=True)
        self._waiter.start()

    @property
    def group(self) -> int:
        """The number of its process group."""
        return self._process.pid

    def _wait(self) -> None:
        with contextlib.suppress(ChildProcessError):
            ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            if ended is not None:
                code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
                self._events.put(Exit(self.spec.index, code, time.monotonic()))

    def signal_group(self, number: signal.Signals) -> None:
        """Sends a signal to the worker and all processes that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.group, number)

    def reap(self) -> None:
        """Kills what is left of the group, and waits for the end of process and output."""
        self.signal_group(signal.SIGKILL)
        self._waiter.join()
        self._process.wait()
        # A process that has left the group may hold the pipe open: the thread then stays behind.
        self.output.join(_READ_SECONDS)
