"""``tfdp bench chaos``: from its options to the exit code."""

from __future__ import annotations

import contextlib
import itertools
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tfdp.bench.chaos.faults import Fault, all_faults
from tfdp.bench.chaos.outcome import ChaosReport
from tfdp.bench.chaos.run import ChaosOptions, run_chaos
from tfdp.errors import ConfigError, RunError, UnsupportedError


@dataclass(frozen=True)
class ChaosWishes:
    """The options of the command.

    Attributes:
      steps: that the run takes at least.
      faults: words, of which a fault's name has to contain one; () for all.
      rounds: how often all of them strike.
      pause_seconds: between two faults.
      directory: where both runs and all logs are kept; None: nowhere.
      json: where to write everything.
    """

    steps: int
    faults: tuple[str, ...]
    rounds: int
    pause_seconds: float
    directory: Path | None
    json: Path | None


def run(wishes: ChaosWishes) -> int:
    """Runs and prints; returns 0 if all was survived and nothing lost, else 1.

    Raises:
      ConfigError: no fault has such a name, or the directory is not empty.
      UnsupportedError: not on Linux.
      RunError: the run without faults failed, or a file cannot be written.
    """
    if not Path("/proc/self/task").is_dir():
        raise UnsupportedError("the chaos runs look at processes as Linux shows them, in /proc.")
    chosen = _chosen(wishes.faults)
    console = Console()
    with _ends_in_order(), tempfile.TemporaryDirectory(prefix="tfdp-chaos-") as temporary:
        directory = wishes.directory or Path(temporary)
        if directory.is_dir() and any(directory.iterdir()):
            raise ConfigError(f"{directory}: is not empty; two runs are written there.")
        repeated = list(itertools.chain.from_iterable(chosen for _ in range(wishes.rounds)))
        report = run_chaos(
            ChaosOptions(repeated, wishes.steps, wishes.pause_seconds, directory), console.print
        )
    console.print(report.table())
    console.print(report.summary())
    if wishes.json is not None:
        _write(wishes.json, report)
    return 0 if report.passed else 1


@contextlib.contextmanager
def _ends_in_order() -> Iterator[None]:
    """Lets SIGTERM end the launches too, and remove what was made."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _chosen(words: tuple[str, ...]) -> list[Fault]:
    faults = all_faults()
    if not words:
        return faults
    for word in words:
        if not any(word in fault.name for fault in faults):
            names = "\n".join(f"  {fault.name}" for fault in faults)
            raise ConfigError(f'no fault has "{word}" in its name; there are:\n{names}')
    return [fault for fault in faults if any(word in fault.name for word in words)]


def _write(path: Path, report: ChaosReport) -> None:
    try:
        path.write_text(report.to_json(), encoding="utf-8")
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}.") from None
