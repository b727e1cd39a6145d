"""Starts the workers that time one reducer, by the launcher or by mpiexec."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfdp.bench.candidates import Candidate, mpiexec
from tfdp.cluster.runtime import tune_runtime
from tfdp.errors import WorkerError
from tfdp.launcher.api import launch
from tfdp.launcher.environment import GroupShape
from tfdp.launcher.ports import free_ports
from tfdp.launcher.supervisor import LaunchPlan, supervise
from tfdp.launcher.values import load_value

START_TIMEOUT_SECONDS = 60.0
_PACKAGES = str(Path(__file__).resolve().parents[2])
# A rank finds tfdp where this process has found it, installed or not.
_BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from tfdp.bench.rank import main; sys.exit(main(sys.argv[2:]))"
)


def time_workers(
    candidate: Candidate,
    workers: int,
    devices: int,
    sizes: Sequence[int],
    repetitions: int,
    timeout_seconds: float,
) -> list[list[float]]:
    """Seconds by size and repetition, of the slowest worker each.

    Raises:
      WorkerError: a worker failed, or the time was up.
    """
    arguments = (candidate.reducer, candidate.compression, devices, list(sizes), repetitions)
    if candidate.reducer == "mpi":
        found = _under_mpiexec(arguments, workers, timeout_seconds)
    else:
        # Standard output is for the tables.
        with contextlib.redirect_stdout(sys.stderr):
            found = launch(
                "tfdp.bench.timing:time_in_worker",
                workers=workers,
                devices_per_worker=devices,
                args=arguments,
                timeout=timeout_seconds,
                start_timeout=START_TIMEOUT_SECONDS,
            )
    return slowest(found)


def slowest(seconds: Sequence[Sequence[Sequence[float]]]) -> list[list[float]]:
    """For every size and repetition the longest of the workers' times."""
    return [
        [max(times) for times in zip(*of_size, strict=True)]
        for of_size in zip(*seconds, strict=True)
    ]


def _under_mpiexec(arguments: Sequence[Any], workers: int, timeout_seconds: float) -> list[Any]:
    """The launcher watches mpiexec, which starts the ranks."""
    program = mpiexec()
    assert program is not None, "the candidates were checked"
    environ = dict(os.environ)
    tune_runtime(workers_on_host=workers, environ=environ)
    with tempfile.TemporaryDirectory(prefix="tfdp-bench-") as name:
        folder = Path(name)
        addresses = [f"localhost:{port}" for port in free_ports(workers)]
        job = {"arguments": list(arguments), "addresses": addresses}
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        ranks = [program, "-n", str(workers), sys.executable, "-c", _BOOTSTRAP, _PACKAGES, name]
        plan = LaunchPlan(
            shape=GroupShape(1, start_timeout_seconds=START_TIMEOUT_SECONDS),
            command=lambda _: ranks,
            log_directory=folder,
            timeout_seconds=timeout_seconds,
        )
        result = supervise(plan, environ, sys.stderr)
        if result.interrupt is not None:
            raise KeyboardInterrupt
        if result.unfinished:
            raise WorkerError(f"the MPI ranks were not done after {timeout_seconds:g} s")
        if result.failure is not None:
            text = "\n".join(result.failure.lines)
            raise WorkerError(
                f"the MPI ranks ended with {result.failure.exit.describe()}:\n{text}",
                traceback_text=text,
            )
        return [load_value(folder / f"result-{rank}") for rank in range(workers)]
