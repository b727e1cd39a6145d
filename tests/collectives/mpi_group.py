"""Runs programs of the tests under mpiexec."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.parity.groups import REPOSITORY, free_ports
from tfdp.launcher.values import load_value

DEADLINE_SECONDS = 240


def _mpiexec() -> str:
    """Path of the mpiexec that belongs to mpi4py's MPI, or a skip that says what is missing."""
    try:
        import mpi4py  # noqa: F401
    except ImportError as error:
        pytest.skip(f"mpi4py cannot be imported ({error}): pip install 'tfdp[mpi]'")
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        pytest.skip("there is no mpiexec: pip install 'tfdp[mpi]' brings one")
    return found


def run(
    task: str, folder: Path, ranks: int = 2, program: str = "tests.collectives.mpi_program"
) -> list[dict[str, Any]]:
    """What each of the ranks has found."""
    command = [_mpiexec(), "-n", str(ranks), sys.executable, "-m", program]
    environ = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    environ |= {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    environ |= {"TFDP_START_TIMEOUT": "90", "TEST_BASE_PORT": str(min(free_ports(3)))}
    log = folder / "log.txt"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, task, str(folder)],
            cwd=REPOSITORY,
            env=environ,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        code = process.wait(DEADLINE_SECONDS)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert code == 0, log.read_text(encoding="utf-8", errors="replace")[-4000:]
    return [load_value(folder / str(rank)) for rank in range(ranks)]
