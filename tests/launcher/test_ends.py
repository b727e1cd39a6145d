"""How groups end: by workers that have saved and leave, by signals, and who failed first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.launcher.test_supervisor import PRELUDE, run
from tfdp.launcher import group
from tfdp.launcher.group import GroupResult

pytestmark = pytest.mark.multi_process

DEADLINE_SECONDS = 30.0
SAVED = GroupResult(preempted=True, status=75)


@pytest.mark.parametrize(
    ("codes", "result"),
    [
        ("75, 75, 75", SAVED),
        ("75, 0, 75", SAVED),
        ("75, 3, 75", SAVED),  # it has found the others gone
        ("75, -15, 75", SAVED),  # it was told to end once more while it left
    ],
)
def test_workers_that_have_saved_are_no_failure(
    codes: str, result: GroupResult, tmp_path: Path
) -> None:
    code = f"""
        time.sleep(TASK / 4)
        code = ({codes})[TASK]
        sys.exit(code) if code >= 0 else os.kill(os.getpid(), -code)
    """
    found, _ = run(code, tmp_path, workers=3, max_restarts=2, grace_seconds=5.0)
    assert found == result
    assert not list(tmp_path.glob("*restart*"))


def test_a_worker_that_still_saves_is_waited_for(tmp_path: Path) -> None:
    code = f"time.sleep(TASK)\nopen({str(tmp_path / 'saved-')!r} + str(TASK), 'w')\nsys.exit(75)"
    assert run(code, tmp_path, grace_seconds=10.0)[0] == SAVED
    assert (tmp_path / "saved-1").exists()


def test_a_worker_that_stays_is_told_to_leave_too(tmp_path: Path) -> None:
    code = "sys.exit(75) if TASK == 0 else time.sleep(60)"
    start = time.monotonic()
    assert run(code, tmp_path, grace_seconds=1.0)[0] == SAVED
    assert time.monotonic() - start < 5


def test_a_crash_beside_workers_that_have_saved_is_one(tmp_path: Path) -> None:
    code = "time.sleep(TASK / 2)\nsys.exit(75) if TASK == 0 else os._exit(4)"
    result, _ = run(code, tmp_path, grace_seconds=5.0)
    assert result.failure is not None
    assert (result.failure.exit.index, result.failure.exit.code) == (1, 4)
    assert not result.preempted


def test_the_cause_is_reported_where_its_consequence_was_seen_first(tmp_path: Path) -> None:
    code = """
        if TASK == 0:
            sys.exit(3)  # as with ClusterError: another worker is gone
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    result, _ = run(code, tmp_path)
    assert result.failure is not None
    assert result.failure.exit.describe() == "signal 9 (SIGKILL)"
    assert result.failure.exit.index == 1


def test_a_consequence_without_a_cause_is_reported(tmp_path: Path) -> None:
    start = time.monotonic()
    result, _ = run("sys.exit(3) if TASK == 0 else time.sleep(60)", tmp_path)
    assert time.monotonic() - start < 5
    assert result.failure is not None
    assert (result.failure.exit.index, result.status) == (0, 3)


def test_after_a_failure_nothing_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "FAILURE_GRACE_SECONDS", 0.5)
    code = """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(0.5)
        os._exit(4) if TASK == 1 else time.sleep(60)
    """
    start = time.monotonic()
    assert run(code, tmp_path, grace_seconds=20.0)[0].status == 4
    assert time.monotonic() - start < 4


def test_a_death_is_noticed_within_two_seconds(tmp_path: Path) -> None:
    code = f"""
        if TASK == 1:
            time.sleep(0.5)
            open({str(tmp_path / "time")!r}, "w").write(str(time.monotonic()))
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)
    """
    result, _ = run(code, tmp_path)
    assert result.failure is not None
    assert result.failure.exit.at - float((tmp_path / "time").read_text()) < 2


SAVES = """
def save(*_):
    print("saving", flush=True)
    time.sleep(0.2 + TASK)
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
print("here", flush=True)
time.sleep(60)
"""


def launched(folder: Path, repository: Path) -> subprocess.Popen[str]:
    """Two workers that save for 0.2 and 1.2 s when they are told to end; both run."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "tfdp", "launch", "--workers", "2", "--max-restarts", "2"),
            *("--log-dir", "logs", "--verbose", "--", sys.executable, "-c", PRELUDE + SAVES),
        ],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(repository)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    assert {next(lines), next(lines)} == {"[worker 0] here\n", "[worker 1] here\n"}
    return process


@pytest.mark.parametrize(
    ("sent", "code"),
    [([signal.SIGTERM] * 3, 75), ([signal.SIGTERM, signal.SIGINT], 143)],
    ids=["SIGTERM thrice", "SIGTERM and Ctrl-C"],
)
def test_only_ctrl_c_ends_workers_that_save(
    sent: list[signal.Signals], code: int, tmp_path: Path, repository: Path
) -> None:
    """Slurm, systemd and `timeout` send SIGTERM to a launcher and to its processes, or twice."""
    process = launched(tmp_path, repository)
    for number in sent:
        process.send_signal(number)
        time.sleep(0.1)
    process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_workers_save(
    number: signal.Signals, tmp_path: Path, repository: Path
) -> None:
    process = launched(tmp_path, repository)
    process.send_signal(number)
    _, errors = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 75
    assert errors.endswith("the workers were told to end: saved; go on with the same command\n")
    assert len(list((tmp_path / "logs").iterdir())) == 2
