"""`tfdp train` on several workers, as real processes that `tfdp launch` starts."""

from __future__ import annotations

import dataclasses
import io
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tests.parity.groups import REPOSITORY
from tests.training.worker_job import EPOCHS, ORDERS_VARIABLE, STEPS_PER_EPOCH, order
from tfdp.config import Config
from tfdp.config.data import DataConfig
from tfdp.config.model import ModelConfig
from tfdp.config.output import CheckpointsConfig, OutputConfig
from tfdp.config.schema import VERSION
from tfdp.config.strategy import StrategyConfig
from tfdp.config.training import TrainingConfig
from tfdp.parity.compare import TOLERANCES, relative_difference
from tfdp.training import train
from tfdp.training.checkpoints import CheckpointStore, Snapshot
from tfdp.training.incidents import read_incidents
from tfdp.training.metrics_log import read_metrics

pytestmark = [pytest.mark.multi_process, pytest.mark.slow]

DEADLINE_SECONDS = 240
STEPS = STEPS_PER_EPOCH * EPOCHS
MIDDLE = 4  # in the first epoch


def config(run_directory: Path, kind: str = "multi_worker") -> Config:
    return Config(
        version=VERSION,
        strategy=StrategyConfig(kind=kind),
        data=DataConfig(function="tests.training.worker_job:data", global_batch=8, seed=3),
        model=ModelConfig(function="tests.training.worker_job:model"),
        training=TrainingConfig(epochs=EPOCHS, seed=1, deterministic=True),
        output=OutputConfig(
            directory=str(run_directory),
            tensorboard=False,
            checkpoints=CheckpointsConfig(every_steps=1, keep=99),
        ),
    )


@dataclasses.dataclass
class Launched:
    """A `tfdp launch` that has ended."""

    code: int
    shown: str
    folder: Path

    @property
    def run(self) -> Path:
        return self.folder / "run"

    def log(self, worker: int, restart: int = 0) -> str:
        suffix = f".restart-{restart}" if restart else ""
        return (self.folder / "logs" / f"worker-{worker}{suffix}.log").read_text()


def launch(
    folder: Path, *options: str, workers: int = 2, program: Sequence[str] | None = None
) -> Launched:
    """Trains the job in `folder`/run, or runs the program."""
    folder.mkdir(exist_ok=True)
    (folder / "orders").mkdir(exist_ok=True)
    path = folder / "config.yaml"
    path.write_text(config(folder / "run").to_yaml())
    command = [sys.executable, "-m", "tfdp", "launch", "--workers", str(workers), "--verbose"]
    command += ["--log-dir", str(folder / "logs"), *options]
    done = subprocess.run(
        [*command, *(("--", *program) if program else (str(path),))],
        cwd=REPOSITORY,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2", ORDERS_VARIABLE: str(folder / "orders")},
        timeout=DEADLINE_SECONDS,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Launched(done.returncode, done.stdout, folder)


def latest(run_directory: Path) -> Snapshot:
    found = CheckpointStore(run_directory / "checkpoints").load_latest()
    assert found is not None
    return found[0]


def killed_after(step: int, run_directory: Path, target: Path) -> None:
    """What a run that was killed after a step would have left behind."""
    shutil.copytree(run_directory, target)
    for each in CheckpointStore(target / "checkpoints").list():
        if each.total_steps > step:
            each.path.unlink()
    (target / "model.keras").unlink()


def assert_within_rounding(mine: Path, theirs: Path) -> None:
    one, other = latest(mine), latest(theirs)
    assert one.progress.total_steps == other.progress.total_steps == STEPS
    for name, values in other.progress.history.items():
        np.testing.assert_allclose(one.progress.history[name], values, rtol=1e-5)
    for found, expected in zip(one.variables, other.variables, strict=True):
        size = relative_difference(expected.total(), found.total())
        assert size <= TOLERANCES["float32"], (expected.name, size)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Launched:
    """Two workers that nobody disturbs."""
    return launch(tmp_path_factory.mktemp("whole"))


def test_two_workers_train_what_one_device_trains(whole: Launched, tmp_path: Path) -> None:
    assert whole.code == 0, whole.shown
    console = Console(file=io.StringIO())
    result = train(config(tmp_path / "run", "single"), console=console)
    assert_within_rounding(whole.run, result.run_directory)


def test_the_chief_alone_writes_and_shows(whole: Launched) -> None:
    assert {path.name for path in whole.run.iterdir()} - {".lock"} == {
        "config.yaml",
        "metrics.jsonl",
        "model.keras",
        "checkpoints",
    }
    assert [each.total_steps for each in CheckpointStore(whole.run / "checkpoints").list()] == [
        *range(1, STEPS + 1)
    ]
    records = read_metrics(whole.run / "metrics.jsonl")
    assert [(each["epoch"], each["step"], each["replicas"]) for each in records] == [
        (1, STEPS_PER_EPOCH, 2),
        (2, STEPS, 2),
    ]
    assert "epoch 2/2" in whole.log(0)
    assert "epoch 2/2" not in whole.log(1)
    assert "a step has 8 examples" in whole.log(1)


@pytest.fixture(scope="module")
def hurt(tmp_path_factory: pytest.TempPathFactory) -> list[Launched]:
    """A worker is killed in its fourth step; after the restart it is told to end; then it ends.

    Each is worker 1, and nobody else is told anything.
    """
    folder = tmp_path_factory.mktemp("hurt")
    order(folder / "orders", 1, worker=1, step=4, sent=signal.SIGKILL)
    order(folder / "orders", 2, worker=1, step=3, sent=signal.SIGTERM)
    first = launch(folder, "--max-restarts", "1")
    shutil.copytree(first.run, folder / "left")
    return [first, launch(folder, "--resume", "auto")]


def test_a_group_that_was_killed_ends_like_one_that_was_not(
    whole: Launched, hurt: list[Launched]
) -> None:
    """To the bit: weights, optimizer, metrics of the epoch, history."""
    assert "worker 1 has ended with signal 9 (SIGKILL)" in hurt[0].shown
    assert hurt[1].code == 0, hurt[1].shown
    assert not list((hurt[1].folder / "orders").iterdir())
    one, other = latest(hurt[1].run), latest(whole.run)
    assert one.progress == other.progress
    assert [each.name for each in one.variables] == [each.name for each in other.variables]
    for mine, theirs in zip(one.variables, other.variables, strict=True):
        np.testing.assert_array_equal(mine.value, theirs.value, err_msg=mine.name)
    trained = [(each["step"], each["loss"]) for each in read_metrics(hurt[1].run / "metrics.jsonl")]
    assert trained == [
        (each["step"], each["loss"]) for each in read_metrics(whole.run / "metrics.jsonl")
    ]


def test_a_signal_to_one_worker_saves_the_same_step_on_all(hurt: list[Launched]) -> None:
    first, second = hurt
    assert first.code == 75, first.shown
    assert "a worker was told to end: saved" in first.shown
    told = [re.findall(r"stopped after (step \d+)", first.log(each, restart=1)) for each in (0, 1)]
    assert len(told[0]) == 1
    assert told[0] == told[1]
    assert "SIGTERM: stopped after" in first.log(1, restart=1)
    assert "another worker's signal: stopped after" in first.log(0, restart=1)
    saved = latest(first.folder / "left").progress
    assert saved.describe().startswith(f"{told[0][0]} ")
    assert 3 + 3 <= saved.total_steps < STEPS  # of its third step, which may be a few ahead
    events = [(each.kind, each.step) for each in read_incidents(second.run / "incidents.jsonl")]
    assert ("preempted", saved.total_steps) in events
    assert events[-1] == ("resumed", saved.total_steps)


@pytest.mark.parametrize("workers", [1, 3])
def test_another_number_of_workers_goes_on(whole: Launched, tmp_path: Path, workers: int) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    killed_after(MIDDLE, whole.run, folder / "run")
    if workers == 1:
        train(config(folder / "run", "single"), resume=True, console=Console(file=io.StringIO()))
    else:
        launched = launch(folder, "--resume", workers=workers)
        assert launched.code == 0, launched.shown
        assert read_metrics(folder / "run" / "metrics.jsonl")[-1]["replicas"] == workers
    assert_within_rounding(folder / "run", whole.run)


SEPARATE = """
import json, os, sys
from pathlib import Path
from tests.training.test_train_workers import config
from tfdp.errors import RunError
from tfdp.training import train
worker = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
for case in sys.argv[2:]:
    try:
        train(config(Path(sys.argv[1]) / case / str(worker)), resume="auto")
    except RunError as error:
        print(case, "refused:", error, flush=True)
"""


def test_workers_that_see_different_runs_are_refused(whole: Launched, tmp_path: Path) -> None:
    """On all workers, in words; one may be further, or have nothing, or another run's state."""
    for case in ("behind", "nothing", "other"):
        (tmp_path / case).mkdir()
        killed_after(MIDDLE, whole.run, tmp_path / case / "0")
    killed_after(MIDDLE - 1, whole.run, tmp_path / "behind" / "1")
    killed_after(MIDDLE - 1, whole.run, tmp_path / "other" / "1")
    path = tmp_path / "other" / "1" / "checkpoints" / f"step-{MIDDLE:08d}.npz"
    found = latest(tmp_path / "other" / "0")
    changed = [
        dataclasses.replace(each, value=each.value + each.value.dtype.type(1))
        for each in found.variables
    ]
    CheckpointStore(path.parent, keep=99).save(dataclasses.replace(found, variables=changed))
    assert path.exists()

    program = (sys.executable, "-c", SEPARATE, str(tmp_path), "behind", "nothing", "other")
    launched = launch(tmp_path / "group", program=program)
    assert launched.code == 0, launched.shown
    for worker in (0, 1):
        told = launched.log(worker)
        for case, why in (
            ("behind", "different steps (worker 0: 4, worker 1: 3)"),
            ("nothing", "different steps (worker 0: 4, worker 1: 0)"),
            ("other", "different states of step 4"),
        ):
            assert re.search(rf"{case} refused: .*{re.escape(why)}", told), (case, told)
        assert told.count("All workers must see the same run directory") == 3
    assert not (tmp_path / "nothing" / "1").exists()
