"""Numerical faults in a group of two workers with two devices each, as real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.workers import run_workers
from tfdp.training.incidents import read_incidents

pytestmark = [pytest.mark.multi_process, pytest.mark.slow]
DEADLINE_SECONDS = 180


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def saw(folder: Path) -> list[dict[str, Any]]:
    """What each worker printed last."""
    return run_workers(
        "tests.training.fault_program", str(folder), deadline_seconds=DEADLINE_SECONDS
    )


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
