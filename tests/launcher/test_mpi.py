"""Workers that are ranks of MPI: numbers, logs, exit codes and ends. No TensorFlow."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from tests.collectives.mpi_group import _mpiexec
from tfdp.cli.main import main
from tfdp.config.strategy import StrategyConfig
from tfdp.errors import StrategyError
from tfdp.launcher.mpi import MpiRanks, find_mpiexec
from tfdp.launcher.watchdog import Watchdog

pytestmark = pytest.mark.multi_process
DEADLINE_SECONDS = 60
PROGRAM = """
    import json, os, sys
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    total = world.allreduce(world.Get_rank() + 1)
    restarts = int(os.environ["TFDP_RESTARTS"])
    print(f"index {index} rank {world.Get_rank()} of {world.Get_size()} sum {total}", flush=True)
    if sys.argv[1] == "dies" and index == 1 and restarts == 0:
        os._exit(9)
    world.barrier()
"""


def launched(folder: Path, *arguments: str, task: str) -> subprocess.CompletedProcess[str]:
    _mpiexec()
    program = folder / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, "-m", "tfdp", "launch", "--workers", "3", "--mpi", *arguments]
    command += ["--log-dir", str(folder), "--", sys.executable, str(program), task]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )
    left = [
        each.pid
        for each in psutil.process_iter(["cmdline"])
        if str(folder) in " ".join(each.info["cmdline"] or [])
    ]
    assert left == []
    return done


def test_ranks_are_indexes_and_each_worker_has_its_log(tmp_path: Path) -> None:
    done = launched(tmp_path, task="ends")
    assert done.returncode == 0, done.stderr
    for index in range(3):
        log = (tmp_path / f"worker-{index}.log").read_text()
        assert log.strip() == f"index {index} rank {index} of 3 sum 6"


def test_a_death_is_told_and_a_restart_has_new_ranks(tmp_path: Path) -> None:
    done = launched(tmp_path, "--max-restarts", "1", task="dies")
    assert "worker 1 failed first, with exit code 9" in done.stderr
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "worker-2.restart-1.log").read_text()
    assert log.strip() == "index 2 rank 2 of 3 sum 6"


def test_without_mpiexec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfdp.launcher.mpi.find_mpiexec", lambda environ: None)
    with Watchdog() as watchdog, pytest.raises(StrategyError, match="there is no mpiexec") as told:
        MpiRanks(2, {}, watchdog)
    assert 'pip install "tfdp[mpi]"' in str(told.value)


def test_an_mpiexec_that_starts_nothing_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "mpiexec"
    broken.write_text("#!/bin/sh\necho no slots here >&2; exit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr("tfdp.launcher.mpi.find_mpiexec", lambda environ: str(broken))
    monkeypatch.setattr("tfdp.launcher.mpi.RANK_SECONDS", 2.0)
    with Watchdog() as watchdog, MpiRanks(2, {}, watchdog) as ranks:
        done = subprocess.run(
            ranks.command(0, ["true"]), capture_output=True, text=True, timeout=30, check=False
        )
    assert done.returncode == 3
    assert "mpiexec has not started rank 0" in done.stderr
    assert "no slots here" in done.stderr


def test_mpiexec_is_found_beside_the_interpreter() -> None:
    if _mpiexec() == str(Path(sys.executable).with_name("mpiexec")):
        assert find_mpiexec({"PATH": "/nowhere"}) == _mpiexec()


@pytest.mark.parametrize("other", [["--hosts", "FILE"], ["--emit", "slurm", "--workers", "2"]])
def test_ranks_are_of_this_machine(
    other: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost slots=2\n")
    options = [str(hosts) if each == "FILE" else each for each in other]
    assert main(["launch", "--mpi", *options, "--", "true"]) == 2
    assert "MPI's ranks" in capsys.readouterr().err


def test_a_config_that_reduces_by_mpi_asks_for_ranks() -> None:
    assert StrategyConfig(cross_device_ops="mpi").uses_mpi
    assert StrategyConfig(cross_device_ops="two_level", between="mpi").uses_mpi
    assert not StrategyConfig(cross_device_ops="two_level").uses_mpi
