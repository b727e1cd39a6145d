"""The `two_level` reducer between two real workers with two devices each."""

from __future__ import annotations

from typing import Any

import pytest

import tfdp
from tests.collectives import answers, worker_cases
from tfdp.collectives import Topology
from tfdp.collectives.two_level import TwoLevel

pytestmark = pytest.mark.multi_process
DEADLINE_SECONDS = 240


@pytest.fixture(scope="module", params=[1, 2], ids=lambda devices: f"2x{devices}")
def results(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return tfdp.launch(
        "tests.collectives.worker_cases:two_level",
        workers=2,
        devices_per_worker=request.param,
        args=(request.param,),
        timeout=DEADLINE_SECONDS,
        start_timeout=90,
    )


@pytest.mark.parametrize("dtype", worker_cases.DTYPES)
def test_sum(results: list[dict[str, Any]], dtype: str) -> None:
    answers.check_sums(results, dtype)


@pytest.mark.parametrize("dtype", worker_cases.DTYPES[:4])
def test_rounding_stays_within_the_bound_and_is_the_same_everywhere(
    results: list[dict[str, Any]], dtype: str
) -> None:
    answers.check_rounding(results, dtype)


def test_mean(results: list[dict[str, Any]]) -> None:
    answers.check_mean(results)


def test_tensors_of_several_buckets(results: list[dict[str, Any]]) -> None:
    answers.check_large(results)


def test_sparse_gradients_of_different_lengths(results: list[dict[str, Any]]) -> None:
    answers.check_slices(results)


def test_training_equals_one_device(results: list[dict[str, Any]]) -> None:
    answers.check_fit(results, worker_cases.fit())


def test_a_step_has_few_reductions(results: list[dict[str, Any]]) -> None:
    answers.check_reductions_of_a_step(results)


def test_the_reduction_itself(results: list[dict[str, Any]]) -> None:
    """A condition, gathers of different lengths and of bool, outside of a graph."""
    answers.check_reduction([result["reduction"] for result in results])
    answers.check_kept([result["kept"] for result in results])


def test_one_worker_has_one_level() -> None:
    topology = Topology(1, 4, "CPU")
    assert "several workers" in (TwoLevel().refusal(topology) or "")
