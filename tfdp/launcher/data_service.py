"""A tf.data service beside a group of workers, on the same machine.

It outlives the starts of the group, and is started anew where it has ended.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tfdp.errors import RunError
from tfdp.launcher import guard
from tfdp.launcher.output import last_failure
from tfdp.launcher.ports import free_ports

_log = logging.getLogger("tfdp.launch")

LOG = "data-service.log"
START_SECONDS = 60.0
_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.05


class DataService:
    """The process; a context manager around the group.

    Args:
      workers: of the service.
      environ: what it inherits.
      log_directory: for its output.
    """

    def __init__(self, workers: int, environ: Mapping[str, str], log_directory: Path) -> None:
        self._workers = workers
        # What tells the group's workers apart is not for it.
        self._environ = {name: value for name, value in environ.items() if name != "TF_CONFIG"}
        self.log = log_directory / LOG
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""

    def __enter__(self) -> DataService:
        self.log.unlink(missing_ok=True)  # an earlier launch may have written there
        return self

    def address(self) -> str:
        """``grpc://localhost:port``, after it was started if it did not run.

        Raises:
          RunError: it does not start.
        """
        if self._process is not None and self._process.poll() is not None:
            _log.warning("the data service has ended (%s): started again", self._ending())
            self._process = None
        if self._process is None:
            self._start()
        return self._address

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def _start(self) -> None:
        (port,) = free_ports(1)
        command = ["-m", "tfdp", "data", "serve", f"--port={port}", f"--workers={self._workers}"]
        program = [sys.executable, "-I", "-S", str(Path(guard.__file__)), str(os.getpid())]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*program, sys.executable, *command],
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._address = f"grpc://localhost:{port}"
        self._wait(port)
        _log.info("data service: %s, its output is in %s", self._address, self.log)

    def _wait(self, port: int) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
                tail = "\n".join(last_failure(lines))
                raise RunError(f"the data service has ended ({self._ending()}):\n{tail}")
            with contextlib.suppress(OSError):
                socket.create_connection(("localhost", port), 1.0).close()
                return
            time.sleep(_POLL_SECONDS)
        self._stop()
        raise RunError(
            f"the data service has not come up for {START_SECONDS:g} s.",
            hint=f"Its output is in {self.log}.",
        )

    def _ending(self) -> str:
        assert self._process is not None
        code = self._process.returncode
        return f"exit code {code}" if code >= 0 else f"signal {-code}"

    def _stop(self) -> None:
        if self._process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
                break
        self._process = None
