"""`tfdp bench chaos`, a short one; and what it says of what it could not do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.parity.groups import REPOSITORY
from tfdp.bench.chaos import network
from tfdp.bench.chaos import run as chaos_run
from tfdp.bench.chaos.faults import all_faults
from tfdp.bench.chaos.network import TwoHosts, why_no_hosts
from tfdp.bench.chaos.outcome import ChaosReport
from tfdp.bench.chaos.run import ChaosOptions, run_chaos
from tfdp.errors import RunError

DEADLINE_SECONDS = 400
SHORT = ("kill -9 of worker 1 in a step", "SIGTERM to worker 1")
APART = [fault for fault in all_faults() if fault.needs_hosts]


def chaos(folder: Path, *faults: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tfdp", "bench", "chaos", "--steps", "80"),
            *("--faults", ",".join(faults), "--json", str(folder / "found.json")),
            *("--keep", str(folder / "runs")),
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert (folder / "found.json").exists(), done.stdout + done.stderr
    return done, json.loads((folder / "found.json").read_text())


@pytest.mark.slow
@pytest.mark.multi_process
def test_a_run_survives_a_kill_and_a_signal(tmp_path: Path) -> None:
    done, found = chaos(tmp_path, *SHORT)
    assert done.returncode == 0, done.stdout
    assert found["passed"] is True
    assert found["finished"] is True
    assert found["differences"] == found["leaked"] == []
    assert [(each["fault"], each["survived"]) for each in found["outcomes"]] == [
        (name, True) for name in SHORT
    ]
    for each in found["outcomes"]:
        if "SIGTERM" not in each["fault"]:  # the launch has ended by then, and with it what it said
            assert each["detection_seconds"] < 5
        assert each["repeated_steps"] <= 30  # a checkpoint is written every 15 steps
    assert "2 of 2 faults survived" in done.stdout


@pytest.mark.slow
@pytest.mark.multi_process
def test_a_group_survives_a_cut_network(tmp_path: Path) -> None:
    reason = why_no_hosts()
    if reason is not None:
        pytest.skip(reason)
    done, found = chaos(tmp_path, APART[0].name)
    assert done.returncode == 0, done.stdout
    assert found["skipped"] == {}
    assert [each["survived"] for each in found["outcomes"]] == [True]
    assert found["differences"] == found["leaked"] == []
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False)
    assert "tfdp-" not in left.stdout


def test_hosts_that_are_forbidden_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def ip(*arguments: str) -> None:
        asked.append(arguments)
        if arguments[0] == "link":
            raise RunError("Operation not permitted")

    monkeypatch.setattr(network, "_ip", ip)
    with pytest.raises(RunError, match="Operation not permitted"), TwoHosts():
        pass
    made = [each[2] for each in asked if each[:2] == ("netns", "add")]
    removed = [each[2] for each in asked if each[:2] == ("netns", "delete")]
    assert len(made) == 2
    assert made == removed


def test_what_could_not_be_done_is_in_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chaos_run, "why_no_hosts", lambda: "Operation not permitted")
    monkeypatch.setattr(chaos_run._Campaign, "finish_in_peace", lambda self: None)
    report = run_chaos(ChaosOptions(APART, 40, 0.0, tmp_path), lambda text: None)
    assert isinstance(report, ChaosReport)
    assert report.skipped == {APART[0].name: "Operation not permitted"}
    assert report.table().row_count == 1
    assert list(report.table().columns[1].cells) == ["skipped"]
    assert f"skipped: {APART[0].name}: Operation not permitted" in report.summary()
