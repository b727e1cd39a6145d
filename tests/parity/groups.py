"""Starts `tests.parity.program` in processes of its own and reads what they leave behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[2]
LOG_TAIL_LINES = 40


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Group:
    """The processes that run one list of cases together.

    Args:
        mode: see `tests.parity.program`.
        wanted: `COUNT:CASE` each.
        folder: where results and logs go; process i has `folder/i`.
        workers: how many processes.
        devices: of each process.
        floatx: "float64" or "float32".
        deadline_seconds: for all of it; then every process is killed.
    """

    def __init__(
        self,
        mode: str,
        wanted: Sequence[str],
        folder: Path,
        *,
        workers: int = 1,
        devices: int = 1,
        floatx: str = "float64",
        deadline_seconds: float,
    ) -> None:
        self.folder = folder
        self._arguments = ["tests.parity.program", mode, floatx, str(devices)]
        self._wanted = list(wanted)
        self._workers = workers
        self._deadline = deadline_seconds

    def run(self) -> None:
        """Starts the processes and waits for all of them.

        Raises:
            AssertionError: one failed or the deadline passed; with the end of each log.
        """
        ports = free_ports(self._workers)
        processes = [self._start(i, ports) for i in range(self._workers)]
        end = time.monotonic() + self._deadline
        try:
            codes = self._wait(processes, end)
        finally:
            for process in processes:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        problem = "" if codes == {0} else f"ended with {codes or 'nothing: out of time'}"
        assert not problem, problem + "".join(self._log_tail(i) for i in range(self._workers))

    @staticmethod
    def _wait(processes: Sequence[subprocess.Popen[bytes]], end: float) -> set[int | None]:
        """The exit codes when all have ended, or one failed; empty if neither happens in time."""
        while time.monotonic() < end:
            codes = {process.poll() for process in processes}
            if None not in codes or codes - {None, 0}:
                return codes
            time.sleep(0.2)
        return set()

    def result(self, count: int, name: str, worker: int = 0) -> dict[str, np.ndarray]:
        """What the case left behind; its traceback as an AssertionError if it failed."""
        file = self.folder / str(worker) / str(count) / name
        error = file.with_suffix(".error")
        assert not error.exists(), error.read_text(encoding="utf-8")
        with np.load(file.with_suffix(".npz"), allow_pickle=False) as arrays:
            return dict(arrays)

    def _start(self, index: int, ports: Sequence[int]) -> subprocess.Popen[bytes]:
        environ = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
        environ |= {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
        environ["TFDP_START_TIMEOUT"] = "60"
        if self._arguments[1] == "multi_worker":
            cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
            task = {"type": "worker", "index": index}
            environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
        folder = self.folder / str(index)
        folder.mkdir(parents=True)
        with (folder / "log.txt").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *self._arguments, str(folder), *self._wanted],
                cwd=REPOSITORY,
                env=environ,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _log_tail(self, index: int) -> str:
        text = (self.folder / str(index) / "log.txt").read_text(encoding="utf-8", errors="replace")
        return "\n".join([f"\n--- process {index}:", *text.splitlines()[-LOG_TAIL_LINES:]])
