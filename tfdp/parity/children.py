"""Child processes with a deadline, whose errors come back as errors."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import tfdp.errors
from tfdp.errors import RunError, TfdpError

CHILD_VARIABLE = "TFDP_PARITY_CHILD"
"""Set in the environment of every child."""

ERROR_FILE = "error.json"
LOG_FILE = "log.txt"
LOG_TAIL_LINES = 15


class ChildFailed(RunError):
    """A child process ended without a result.

    Args:
      message: what it was doing, and how it ended.
      log: the last lines that it wrote.
    """

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message, hint=log)


def run_child(
    module: str,
    arguments: Sequence[str],
    folder: Path,
    *,
    what: str,
    timeout_seconds: float,
    environ: Mapping[str, str] | None = None,
) -> None:
    """Runs ``python -m module arguments`` and waits for its end.

    Args:
      module: with a ``main`` that is wrapped in `reporting_errors`.
      arguments: of the command line.
      folder: an existing one, for the log and for an error.
      what: "one device", say; for messages.
      timeout_seconds: after which the child is killed with all that it started.
      environ: added to this process's environment.

    Raises:
      TfdpError: the error that ended the child, if it was one.
      ChildFailed: it ended otherwise, or not in time.
    """
    # A child is one process of its own, also where this one belongs to a cluster.
    inherited = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    command = [sys.executable, "-m", module, *arguments]
    with (folder / LOG_FILE).open("wb") as log:
        process = subprocess.Popen(
            command,
            env={**inherited, CHILD_VARIABLE: "1", **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        code = process.wait(timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        raise ChildFailed(
            f"{what}: not finished after {timeout_seconds:g} seconds, and stopped.",
            _log_tail(folder),
        ) from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if (folder / ERROR_FILE).exists():
        raise _read_error(folder / ERROR_FILE)
    if code != 0:
        raise ChildFailed(f"{what}: the process ended with exit code {code}.", _log_tail(folder))


def end_with_parent() -> None:
    """In a child: ends the process when the parent is gone, however it ended."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def reporting_errors(folder: Path) -> Iterator[None]:
    """In a child: hands a TfdpError to the parent; all else ends the process with a traceback."""
    try:
        yield
    except TfdpError as error:
        text = {"type": type(error).__name__, "message": error.message, "hint": error.hint}
        (folder / ERROR_FILE).write_text(json.dumps(text), encoding="utf-8")
        sys.exit(error.exit_code)


def _read_error(file: Path) -> TfdpError:
    fields = json.loads(file.read_text(encoding="utf-8"))
    kind = getattr(tfdp.errors, fields["type"], TfdpError)
    error: TfdpError = kind(fields["message"], hint=fields["hint"])
    return error


def _log_tail(folder: Path) -> str:
    text = (folder / LOG_FILE).read_text(encoding="utf-8", errors="replace")
    return "\n".join(text.splitlines()[-LOG_TAIL_LINES:])
