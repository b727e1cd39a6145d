"""Numerical faults in a group of two workers with two devices each, as real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.parity.groups import REPOSITORY, free_ports
from tfdp.training.incidents import read_incidents

pytestmark = [pytest.mark.multi_process, pytest.mark.slow]
DEADLINE_SECONDS = 180


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def saw(folder: Path) -> list[dict[str, Any]]:
    """What each worker printed last."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    processes = []
    for index in range(2):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.training.fault_program", str(folder)],
                cwd=REPOSITORY,
                env={
                    **os.environ,
                    "TF_CONFIG": json.dumps(config),
                    "TF_CPP_MIN_LOG_LEVEL": "2",
                    "TFDP_START_TIMEOUT": "60",
                },
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
    end = time.monotonic() + DEADLINE_SECONDS
    try:
        outputs = [p.communicate(timeout=max(1, end - time.monotonic())) for p in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, errors[-3000:]
    return [json.loads(output.splitlines()[-1]) for output, _ in outputs]


def test_all_raise_the_same_gradient(saw: list[dict[str, Any]]) -> None:
    first, second = (each["gradient"] for each in saw)
    assert first == second
    assert (first["kind"], first["what"]) == ("NotFiniteError", "gradient")
    assert (first["replica"], first["worker"]) == (3, 1)
    assert (first["epoch"], first["step"], first["step_in_epoch"]) == (1, 4, 3)
    assert first["tensor"].endswith("root/scale")
    assert ", on replica 3 (worker 1): the gradient of " in first["message"]


def test_one_workers_weight_stops_all(saw: list[dict[str, Any]]) -> None:
    first, second = (each["weight"] for each in saw)
    assert first == second
    assert (first["what"], first["worker"]) == ("weight", 1)
    assert first["tensor"].endswith("root/offset")


def test_a_flipped_bit_is_named_by_all(saw: list[dict[str, Any]]) -> None:
    """After 8 steps all are equal; the first comparison of the next run is after 10."""
    first, second = (each["drift"] for each in saw)
    assert first == second
    assert first["kind"] == "DriftError"
    assert first["replicas"] == [2]
    assert (first["step"], first["equal_step"]) == (10, 8)
    assert first["variable"].endswith("last/kernel")
    assert "is not the same on replica 2 (worker 1) as on the other 3" in first["message"]


def test_one_process_has_written_them_down(saw: list[dict[str, Any]], folder: Path) -> None:
    incidents = read_incidents(folder / "incidents.jsonl")
    assert [(each.kind, each.step, each.worker) for each in incidents] == [
        ("not_finite", 4, 1),
        ("drift", 10, 1),
    ]
