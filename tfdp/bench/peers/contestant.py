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
_INCOMPLETE: dict[str, Any] = {}


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
        with selectors.DefaultSelector() as selector:
            for rank, connection in missing.items():
                selector.register(connection.socket, selectors.EVENT_READ, rank)
            while missing:
                waiting = [key.data for key, _ in selector.select(0.2)]
                waiting = [rank for rank, each in missing.items() if each.has_line] or waiting
                for rank in waiting:
                    answer = missing[rank].answer()
                    if answer is _INCOMPLETE:
                        continue
                    selector.unregister(missing.pop(rank).socket)
                    if answer is None or "error" in answer:
                        told = answer or {"error": "it left"}
                        raise self._failure(f"rank {rank}: {told['error']}", told.get("traceback"))
                    answers[rank] = answer
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
    """To one rank. Lines are cut here: a file object would read ahead, unseen by a selector."""

    def __init__(self, connected: socket.socket) -> None:
        connected.settimeout(None)
        self.socket = connected
        self._read = b""
        first = self.answer()
        while first is _INCOMPLETE:
            first = self.answer()
        self.rank = int((first or {"rank": -1})["rank"])

    @property
    def has_line(self) -> bool:
        """Whether a whole line was read already."""
        return b"\n" in self._read

    def ask(self, asked: Any) -> None:
        """Sends what a turn is to do; None ends the rank."""
        with contextlib.suppress(OSError):  # who is gone is told by the one that waits for it
            self.socket.sendall(json.dumps(asked).encode() + b"\n")

    def answer(self) -> dict[str, Any] | None:
        """The next line; `_INCOMPLETE` if it has not arrived whole, None if the rank is gone."""
        if not self.has_line:
            try:
                more = self.socket.recv(65536)
            except OSError:
                return None
            if not more:
                return None
            self._read += more
        line, newline, rest = self._read.partition(b"\n")
        if not newline:
            return _INCOMPLETE
        self._read = rest
        found: dict[str, Any] = json.loads(line)
        return found


def slowest(results: Sequence[Sequence[float]]) -> list[float]:
    """For every repetition the longest of the ranks' times."""
    return [max(times) for times in zip(*results, strict=True)]
