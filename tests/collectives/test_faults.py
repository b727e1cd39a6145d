"""Workers that are ranks of MPI by `tfdp.launch`, and workers that disagree or die."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import tfdp
from tests.collectives import worker_cases
from tests.collectives.mpi_group import _mpiexec
from tfdp.errors import WorkerError

pytestmark = pytest.mark.multi_process
PROGRAM = "tests.collectives.fault_program"
DEADLINE_SECONDS = 240
FLOAT32 = "a sum of {} float32 numbers"


def launch(function: str, *arguments: Any, **options: Any) -> list[Any]:
    return tfdp.launch(
        f"{PROGRAM}:{function}",
        args=arguments,
        timeout=DEADLINE_SECONDS,
        start_timeout=90,
        **options,
    )


@pytest.fixture(scope="module")
def ranks() -> list[dict[str, Any]]:
    _mpiexec()  # or skips
    return launch("as_ranks", devices_per_worker=2, mpi=True)


def test_ranks_are_the_indexes_of_the_workers(ranks: list[dict[str, Any]]) -> None:
    assert [told["rank"] for told in ranks] == [0, 1]


def test_all_workers_use_what_the_trial_has_chosen(ranks: list[dict[str, Any]]) -> None:
    first, second = ranks
    assert first["tuning"] == second["tuning"] | {"seconds": first["tuning"]["seconds"]}
    trial = first["tuning"]["trial"]
    assert {each["cross_device_ops"] for each in trial} == {"ring", "two_level", "mpi"}
    assert {each["bucket_mb"] for each in trial} == {1, 4, 16}
    assert all(each["milliseconds"] > 0 for each in trial)
    chosen = first["tuning"]["chosen"]
    for told in ranks:
        used = {"cross_device_ops": told["reducer"], "bucket_mb": told["bucket"] / 2**20}
        assert used == chosen
        assert told["again"], "a cell that runs twice"


def test_training_with_the_choice_equals_one_device(ranks: list[dict[str, Any]]) -> None:
    expected = worker_cases.fit()
    for one, other, right in zip(ranks[0]["fit"], ranks[1]["fit"], expected, strict=True):
        np.testing.assert_allclose(one, right, rtol=1e-12, atol=1e-14)
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("shape", (FLOAT32.format(4), FLOAT32.format(5))),
        ("dtype", (FLOAT32.format(4), "a sum of 4 float64 numbers")),
        ("order", (FLOAT32.format(5), FLOAT32.format(4))),
        ("kind", (FLOAT32.format(4), "rows of shape () of float32 numbers to join")),
        ("row", ("rows of shape (2,) of float32", "rows of shape (3,) of float32")),
    ],
)
def test_ranks_that_disagree_are_told_so(
    ranks: list[dict[str, Any]], case: str, said: tuple[str, str]
) -> None:
    for told in ranks:
        assert "the workers came to different reductions" in told[case]
        assert f"worker 0: {said[0]}" in told[case]
        assert f"worker 1: {said[1]}" in told[case]


def test_a_disagreement_leaves_mpi_usable(ranks: list[dict[str, Any]]) -> None:
    assert [told["after"].tolist() for told in ranks] == [[3.0], [3.0]]


@pytest.mark.parametrize("name", ["ring", "two_level"])
def test_workers_that_disagree_about_a_shape_end_with_a_clear_error(name: str) -> None:
    """TensorFlow tells one of them; the others are ended, or lose it some ten seconds later."""
    with pytest.raises(WorkerError, match="Shape mismatch in the collective instance"):
        launch("flat_or_two_level", name)


def test_a_rank_that_dies_ends_all() -> None:
    _mpiexec()
    start = time.monotonic()
    with pytest.raises(WorkerError, match="worker 1 died with exit code 3"):
        launch("dies", mpi=True)
    assert time.monotonic() - start < 120
