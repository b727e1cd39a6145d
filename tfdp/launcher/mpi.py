"""Ranks of MPI for the workers of a group.

``mpiexec`` starts placeholders, and each worker takes the place of one: so the workers stay the
launcher's own processes, with their logs, exit codes and signals, and MPI's ranks are the indexes
of TF_CONFIG.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tfdp.errors import ClusterError, StrategyError
from tfdp.launcher import guard, mpi_join, mpi_rank
from tfdp.launcher.watchdog import Watchdog

RANK_SECONDS = 30.0
"""How long a worker waits for its rank."""

_EXIT_SECONDS = 5.0
_OF_A_RANK = ("PMI", "OMPI_COMM_WORLD_")


def find_mpiexec(environ: Mapping[str, str]) -> str | None:
    """Path of mpiexec; wheels put it beside the interpreter, which need not be on PATH."""
    folders = [str(Path(sys.executable).parent), environ.get("PATH", os.defpath)]
    return shutil.which("mpiexec", path=os.pathsep.join(folders))


class MpiRanks:
    """As many ranks as there are workers, for one start of a group.

    Args:
      count: how many.
      environ: what mpiexec inherits.
      watchdog: ends mpiexec if this process is killed.

    Raises:
      StrategyError: there is no mpiexec.
    """

    def __init__(self, count: int, environ: Mapping[str, str], watchdog: Watchdog) -> None:
        program = find_mpiexec(environ)
        if program is None:
            raise StrategyError(
                "the workers are to reduce by MPI, and there is no mpiexec.",
                hint='pip install "tfdp[mpi]" brings one; or reduce by another: '
                "--set strategy.cross_device_ops=ring",
            )
        self._command = [program, "-n", str(count), *_script(mpi_rank)]
        # What a launcher has that is a rank itself is not for these.
        self._environ = {n: v for n, v in environ.items() if not n.startswith(_OF_A_RANK)}
        self._watchdog = watchdog

    def __enter__(self) -> MpiRanks:
        self._folder = tempfile.TemporaryDirectory(prefix="tfdp-mpi-")
        with Path(self._folder.name, "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*_script(guard), str(os.getpid()), *self._command, self._folder.name],
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._watchdog.watch(self._process.pid)
        return self

    def command(self, rank: int, program: Sequence[str]) -> list[str]:
        """What runs the program as that rank."""
        code = str(ClusterError.exit_code)
        place = [self._folder.name, str(rank), str(RANK_SECONDS), code]
        return [*_script(mpi_join), *place, *program]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_EXIT_SECONDS)
                break
        self._watchdog.forget(self._process.pid)
        self._folder.cleanup()


def _script(module: object) -> list[str]:
    return [sys.executable, "-I", "-S", str(module.__file__)]  # type: ignore[attr-defined]
