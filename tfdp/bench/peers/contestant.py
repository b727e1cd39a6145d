"""A group of processes that waits for its turns."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from tfdp.errors import WorkerError

START_SECONDS = 240.0
_LINES_SHOWN = 15


@dataclass(frozen=True)
class Program:
    """How to start one contestant.

    Attributes:
      name: for tables and messages.
      ranks: processes that will connect.
      commands: what to start; one may start several ranks. "{socket}" in an argument stands for
        the path of the socket.
      environs: of each command, added to this process's environment; None removes a variable.
    """

    name: str
    ranks: int
    commands: tuple[tuple[str, ...], ...]
    environs: tuple[Mapping[str, str | None], ...] = field(default=())


class Contestant:
    """A started program; leaving the context ends its processes.

    Between its turns a process waits on its socket and takes no time from the others.

    Args:
      program: what to start.
      turn_seconds: how long one turn may take.
    """

    def __init__(self, program: Program, turn_seconds: float = 300.0) -> None:
        self.program = program
        self._turn_seconds = turn_seconds
        self._stack = contextlib.ExitStack()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ranks: dict[int, _Connection] = {}

    def __enter__(self) -> Contestant:
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            for connection in self._ranks.values():
                connection.ask(None)
            end = time.monotonic() + 10.0
            for process in self._processes:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.1, end - time.monotonic()))
        self._end()

    @property
    def name(self) -> str:
        """Of the program."""
        return self.program.name

    def wait_until_ready(self) -> None:
        """Returns when all ranks have built what is to be measured.

        Raises:
          WorkerError: one failed, or the time is up.
        """
        self._answers(START_SECONDS)

    def turn(self, **asked: Any) -> list[Any]:
        """Lets every rank take one turn, at the same time; what each said, by rank.

        Raises:
          WorkerError: one failed, or the time is up.
        """
        for connection in self._ranks.values():
            connection.ask(asked)
        return [each["result"] for each in self._answers(self._turn_seconds)]

    def _start(self) -> None:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tfdp-bench-")))
        path = folder / "socket"
        listener = self._stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listener.bind(str(path))
        listener.listen(self.program.ranks)
        self._logs = []
        for number, command in enumerate(self.program.commands):
            log = folder / f"log-{number}"
            self._logs.append(log)
            changes = self.program.environs[number] if self.program.environs else {}
            environ = {**os.environ, **changes}
            with log.open("wb") as file:
                self._processes.append(
                    subprocess.Popen(
                        [part.replace("{socket}", str(path)) for part in command],
                        env={name: value for name, value in environ.items() if value is not None},
                        stdin=subprocess.DEVNULL,
                        stdout=file,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                )
        end = time.monotonic() + START_SECONDS
        listener.settimeout(0.2)
        while len(self._ranks) < self.program.ranks:
            self._check(end)
            with contextlib.suppress(TimeoutError):
                connection = _Connection(self._stack.enter_context(listener.accept()[0]))
                self._ranks[connection.rank] = connection
        self._ranks = dict(sorted(self._ranks.items()))

    def _answers(self, seconds: float) -> list[dict[str, Any]]:
        end = time.monotonic() + seconds
        missing = dict(self._ranks)
        answers: dict[int, dict[str, Any]] = {}
        failures: list[str] = []
        with selectors.DefaultSelector() as selector:
            for rank, connection in missing.items():
                selector.register(connection.socket, selectors.EVENT_READ, rank)
            while len(answers) < len(self._ranks):
                for key, _ in selector.select(0.2):
                    answer = missing[key.data].answer()
                    selector.unregister(key.fileobj)
                    if answer is None or "error" in answer:
                        failures.append(f"rank {key.data}: {(answer or {}).get('error', 'left')}")
                        raise self._failure("; ".join(failures), (answer or {}).get("traceback"))
                    answers[key.data] = answer
                self._check(end)
        return [answers[rank] for rank in self._ranks]

    def _check(self, end: float) -> None:
        for process in self._processes:
            if process.poll() not in (None, 0):
                raise self._failure(f"a process ended with exit code {process.returncode}")
        if time.monotonic() > end:
            raise self._failure("the time is up")

    def _failure(self, reason: str, traceback_text: str | None = None) -> WorkerError:
        tail: list[str] = []
        for log in self._logs:
            tail += log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES_SHOWN:]
        text = traceback_text or "\n".join(tail)
        return WorkerError(f"{self.name}: {reason}\n{text}", traceback_text=text)

    def _end(self) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._stack.close()


class _Connection:
    """To one rank."""

    def __init__(self, connected: socket.socket) -> None:
        connected.settimeout(None)
        self.socket = connected
        self._lines = connected.makefile("rw", encoding="utf-8")
        self.rank = int(json.loads(self._lines.readline())["rank"])

    def ask(self, asked: Any) -> None:
        with contextlib.suppress(OSError):  # who is gone is told by the one that waits for it
            self._lines.write(json.dumps(asked) + "\n")
            self._lines.flush()

    def answer(self) -> dict[str, Any] | None:
        try:
            line = self._lines.readline()
        except OSError:
            return None
        found: dict[str, Any] | None = json.loads(line) if line else None
        return found


def slowest(results: Sequence[Sequence[float]]) -> list[float]:
    """For every repetition the longest of the ranks' times."""
    return [max(times) for times in zip(*results, strict=True)]
