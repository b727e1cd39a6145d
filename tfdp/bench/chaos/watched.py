"""A launched group, seen from outside: its workers' processes, what they do, and what is said."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tfdp.cluster.heartbeat import HEARTBEAT_VARIABLE, Beat, read_record

_DETECTED = re.compile(
    r"worker \d+ (has ended|does not go on|has saved and left|failed first|stalled)"
)
_PROC = Path("/proc")


@dataclass(frozen=True)
class Line:
    """What the launcher said, and when (`time.monotonic`)."""

    at: float
    text: str


class WatchedLaunch:
    """``tfdp launch`` of a config in a process of its own.

    Args:
      config: path of the config.
      log_directory: of the workers' logs.
      options: further options of ``tfdp launch``.
      before: what stands before the command.
    """

    def __init__(
        self,
        config: Path,
        log_directory: Path,
        options: Sequence[str],
        before: Sequence[str] = (),
    ) -> None:
        command = [*before, sys.executable, "-m", "tfdp", "launch"]
        command += ["--resume", "auto", "--log-dir", str(log_directory), *options, str(config)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[Line] = []
        self._reader = threading.Thread(target=self._read, name="launcher's output", daemon=True)
        self._reader.start()

    @property
    def status(self) -> int | None:
        """The launcher's exit code, or None while it runs."""
        return self._process.poll()

    def beats(self) -> dict[int, Beat]:
        """What the workers that run do, by index; those that have not begun yet are missing."""
        found = {}
        for process in _children(self._process.pid):
            path = _heartbeat_of(process)
            match = None if path is None else re.match(r"worker-(\d+)", path.name)
            beat = None if path is None else read_record(path)
            if match is not None and beat is not None and beat.process:
                found[int(match[1])] = beat
        return found

    def detected_after(self, moment: float) -> float | None:
        """When the launcher noticed that a worker was gone or stood still, after `moment`."""
        times = [
            line.at for line in self.lines if line.at >= moment and _DETECTED.search(line.text)
        ]
        return min(times, default=None)

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None if it has not ended in time."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> None:
        """Ends whatever of it is left."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            if self.wait(40.0) is None:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._reader.join(5.0)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            self.lines.append(Line(time.monotonic(), text.rstrip()))


def _children(process: int) -> list[int]:
    try:
        text = (_PROC / str(process) / "task" / str(process) / "children").read_text()
    except OSError:
        return []
    return [int(child) for child in text.split()]


def _heartbeat_of(process: int) -> Path | None:
    try:
        content = (_PROC / str(process) / "environ").read_bytes()
    except OSError:
        return None
    for variable in content.split(b"\0"):
        name, _, value = variable.partition(b"=")
        if name.decode() == HEARTBEAT_VARIABLE:
            return Path(value.decode())
    return None
