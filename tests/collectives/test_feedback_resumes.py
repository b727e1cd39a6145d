"""A run with compression that owes: its workers agree, and it goes on where it was saved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.workers import run_workers
from tfdp.training.variables import StateArray

DEVICES = 2


@pytest.fixture(scope="module")
def workers() -> list[dict[str, Any]]:
    return run_workers("tests.collectives.feedback_program", str(DEVICES), deadline_seconds=240)


@pytest.mark.slow
@pytest.mark.multi_process
@pytest.mark.parametrize("name", ["powersgd", "topk"])
def test_a_resumed_run_is_the_uninterrupted_one(workers: Any, name: str) -> None:
    assert workers[0][name]["whole"] == workers[1][name]["whole"]
    for worker in workers:
        assert worker[name]["resumed"] == worker[name]["whole"]


@pytest.mark.slow
@pytest.mark.multi_process
@pytest.mark.parametrize("name", ["powersgd", "topk"])
def test_each_worker_saves_what_it_owes(workers: Any, name: str) -> None:
    found = workers[0][name]
    assert found["owed"] == [[[2 * DEVICES, 40, 64], "sum"]]
    (debts,) = found["debts"]
    # A worker's debt lies with its first replica.
    assert [debt > 0 for debt in debts] == [True, False, True, False]


def test_on_another_number_of_replicas_the_debts_of_all_are_kept() -> None:
    parts = np.random.default_rng(1).integers(-9, 9, size=(4, 3, 2)).astype(np.float32)
    array = StateArray("optimizer/3/sgd/kernel_compression_residual", parts, "sum")
    shared = array.for_replicas(3)
    assert len(shared) == 3
    np.testing.assert_array_equal(sum(shared), parts.sum(axis=0))
