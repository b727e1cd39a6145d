"""``tfdp launch`` as a command, with programs that do not load TensorFlow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

DEADLINE_SECONDS = 60

Launch = Callable[..., "subprocess.CompletedProcess[str]"]

CONFIG = """
version: 1
strategy: {kind: %s}
data: {name: fashion_mnist}
model: {name: resnet_small}
output: {directory: run}
"""


def tfdp(
    *arguments: str, folder: Path, repository: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tfdp", "launch", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(repository)} | variables,
        timeout=DEADLINE_SECONDS,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(name="launch")
def _launch(tmp_path: Path, repository: Path) -> Launch:
    def call(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return tfdp(*arguments, folder=tmp_path, repository=repository, **variables)

    return call


@pytest.fixture(name="config")
def _config(tmp_path: Path) -> str:
    (tmp_path / "train.yaml").write_text(CONFIG % "auto")
    return "train.yaml"


pytestmark = pytest.mark.multi_process

PYTHON = ["--", sys.executable, "-c"]


def test_a_program_with_arguments_of_its_own(launch: Launch, tmp_path: Path) -> None:
    code = "import sys; print(sys.argv[1:])"
    done = launch("--workers", "2", "--log-dir", "logs", *PYTHON, code, "--set", "x", "--", "-h")
    assert (done.returncode, done.stdout) == (0, "[worker 0] ['--set', 'x', '--', '-h']\n")
    assert done.stderr == "tfdp: 2 workers, their output is in logs\n"
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == [
        "worker-0.log",
        "worker-1.log",
    ]


def test_the_first_failure_is_reported_and_the_worst_code_passed_on(launch: Launch) -> None:
    code = (
        "import json, os, sys, time\n"
        "if json.loads(os.environ['TF_CONFIG'])['task']['index']: sys.exit('error: too bad')\n"
        "time.sleep(30)"
    )
    done = launch("--workers", "2", "--grace", "1", "--log-dir", "logs", *PYTHON, code)
    assert done.returncode == 1
    assert "error: worker 1 failed first, with exit code 1, " in done.stderr
    assert "  | error: too bad\nits whole output: logs/worker-1.log\n" in done.stderr


def test_restarts(launch: Launch) -> None:
    code = "import os, sys; sys.exit(4 - 4 * int(os.environ['TFDP_RESTARTS']))"
    done = launch("--workers", "1", "--max-restarts", "2", *PYTHON, code)
    assert done.returncode == 0
    assert "tfdp: worker 0 failed first, with exit code 4" in done.stderr
    assert "tfdp: restart 1 of 2 in 1 s\n" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals(number: signal.Signals, tmp_path: Path, repository: Path) -> None:
    code = "import time; print('here', flush=True); time.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, "-m", "tfdp", "launch", "--workers", "2", *PYTHON, code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(repository)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "[worker 0] here\n"
    process.send_signal(number)
    _, errors = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 128 + number
    assert errors.endswith(f"interrupted by {number.name}: all workers have ended\n")


def test_only_the_workers_of_this_machine_are_started(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("elsewhere.invalid:4000\nlocalhost:4001\nlocalhost:4002\n")
    code = "import json, os; print(os.environ['TF_CONFIG'])"
    done = launch("--hosts", "hosts", "--verbose", *PYTHON, code)
    assert done.returncode == 0
    lines = sorted(done.stdout.splitlines())
    assert [line.partition("]")[0] for line in lines] == ["[worker 1", "[worker 2"]
    config = yaml.safe_load(lines[0].partition("] ")[2])
    assert config["cluster"]["worker"] == [
        "elsewhere.invalid:4000",
        "localhost:4001",
        "localhost:4002",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["x.yaml"], 2, "error: x.yaml: there is no such file"),
        (["train.yaml"], 2, "error: --workers is missing: how many workers?"),
        (["--workers", "2", "--", "no-such-program"], 6, "error: there is no program no-such-"),
        (["--workers", "2", "--resume", "--", "true"], 2, "error: --resume only goes with a CONFI"),
        (["--workers", "2", "single.yaml"], 2, "error: strategy.kind is single: every worker"),
        (["--workers", "2", "train.yaml", "--set", "a=1"], 2, "error: --set a=1: "),
        (["--workers", "0", "train.yaml"], 2, "usage: tfdp launch"),
        (["--workers", "2", "--grace", "-1", "train.yaml"], 2, "usage: tfdp launch"),
        (["--workers", "2"], 2, "usage: tfdp launch"),
        (
            ["--workers", "2", "--min-workers", "3", "--max-restarts", "1", "--", "true"],
            2,
            "error: --min-workers is 3, but there are only 2 workers",
        ),
        (
            ["--workers", "2", "--min-workers", "1", "--", "true"],
            2,
            "error: --min-workers says how",
        ),
        (["--workers", "2", "--stall-timeout", "-1", "--", "true"], 2, "usage: tfdp launch"),
        (["--workers", "2", "--host", "a", "--", "true"], 2, "error: --host says which host of"),
        (["--hosts", "far", "--host", "b", "--", "true"], 3, "error: far names no worker on this"),
        (["--hosts", "none", "--", "true"], 3, "error: the hosts file none cannot be read"),
        (["--hosts", "far", "--", "true"], 3, "error: far names no worker on this machine"),
        (["--workers", "2", "--hosts", "far", "--", "true"], 3, "error: far names no worker"),
        (["--emit", "kubernetes", "--workers", "2", "train.yaml"], 2, "error: --emit kubernetes"),
        (["--emit", "slurm", "--hosts", "far", "train.yaml"], 2, "error: --hosts and --emit"),
    ],
)
def test_what_cannot_be_launched(
    arguments: list[str], code: int, problem: str, launch: Launch, config: str, tmp_path: Path
) -> None:
    (tmp_path / "far").write_text("elsewhere.invalid\n")
    (tmp_path / "single.yaml").write_text(CONFIG % "single")
    done = launch(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(problem)


def test_half_of_the_machines_may_split(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("one:4000\ntwo:4001\n")
    options = ["--hosts", "hosts", "--host", "two", "--max-restarts", "1", "--min-workers"]
    warning = "--min-workers 1 of 2: when the network between the machines is cut, each part may"
    assert warning in launch(*options, "1", *PYTHON, "pass").stderr
    done = launch(*options, "2", "--stall-timeout", "0", *PYTHON, "print('here')")
    assert (done.returncode, done.stdout) == (0, "[worker 1] here\n")
    assert "is cut" not in done.stderr


def test_help_says_what_the_exit_codes_mean(launch: Launch) -> None:
    shown = launch("--help").stdout
    assert "  75     they were told to end" in shown
    assert "  79     a worker was stopped, or the group did not go on" in shown


def test_too_few_gpus(launch: Launch) -> None:
    done = launch("--workers", "3", *PYTHON, "pass", CUDA_VISIBLE_DEVICES="0,1")
    assert done.returncode == 4
    assert "3 workers with 1 GPU each need 3, and there are 2" in done.stderr


def test_emit_writes_a_file_and_says_how_to_submit_it(
    launch: Launch, config: str, tmp_path: Path
) -> None:
    done = launch("--emit", "slurm", "--workers", "4", "--output", "job.sbatch", config)
    assert (done.returncode, done.stdout) == (0, "submit it with: sbatch job.sbatch\n")
    assert "command=(tfdp train train.yaml)\n" in (tmp_path / "job.sbatch").read_text()


def test_emit_to_standard_output(launch: Launch, config: str) -> None:
    arguments = ["--emit", "kubernetes", "--workers", "4", "--image", "i:1", config]
    done = launch(*arguments, "--set", "training.epochs=2")
    assert done.returncode == 0
    worker = yaml.safe_load(done.stdout)["spec"]["tfReplicaSpecs"]["Worker"]
    command = worker["template"]["spec"]["containers"][0]["command"]
    expected = ["tfdp", "train", "train.yaml", "--set", "training.epochs=2", "--resume", "auto"]
    assert command == expected
    assert done.stderr == "save this as FILE and submit it with: kubectl apply -f FILE\n"
