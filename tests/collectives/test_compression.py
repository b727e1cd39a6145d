"""Gradients rounded to 16 bits between workers: the bound, and what is never rounded."""

from __future__ import annotations

from typing import Any

import pytest

import tfdp
from tests.collectives import answers, worker_cases
from tests.collectives.mpi_group import run
from tfdp.collectives import Topology
from tfdp.collectives.compression import check_compression, compressions
from tfdp.collectives.registry import resolve
from tfdp.config.names import COMPRESSIONS
from tfdp.config.strategy import StrategyConfig
from tfdp.errors import StrategyError
from tfdp.training.compute import build_strategy

DEADLINE_SECONDS = 240
UNIT_ROUNDOFF = {"bf16": 2.0**-8, "fp16": 2.0**-11}
TRANSIT = {"bf16": "bfloat16", "fp16": "float16"}
CASES = [("mpi", "bf16"), ("two_level", "bf16"), ("two_level", "fp16")]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def ran(request: pytest.FixtureRequest, tmp_path_factory: Any) -> tuple[str, list[dict[str, Any]]]:
    """The name of the compression, and what two workers with two devices each have found."""
    reducer, name = request.param
    if reducer == "mpi":
        return name, run("rounded_two_devices", tmp_path_factory.mktemp("mpi"))
    found = tfdp.launch(
        "tests.collectives.worker_cases:two_level",
        workers=2,
        devices_per_worker=2,
        args=(2, name),
        timeout=DEADLINE_SECONDS,
        start_timeout=90,
    )
    return name, found


@pytest.mark.multi_process
def test_gradients_stay_within_the_bound(ran: tuple[str, list[dict[str, Any]]]) -> None:
    name, results = ran
    answers.check_gradients(results, TRANSIT[name], UNIT_ROUNDOFF[name])


@pytest.mark.multi_process
def test_reductions_that_are_not_of_gradients_are_exact(
    ran: tuple[str, list[dict[str, Any]]],
) -> None:
    _, results = ran
    for dtype in worker_cases.DTYPES:
        answers.check_sums(results, dtype)
    for dtype in ("float32", "float64"):
        answers.check_rounding(results, dtype)
    answers.check_mean(results)
    answers.check_large(results)
    answers.check_slices(results)
    answers.check_nothing_else_is_rounded(results)


@pytest.mark.multi_process
def test_training_comes_near_one_device(ran: tuple[str, list[dict[str, Any]]]) -> None:
    name, results = ran
    answers.check_rounded_fit(results, worker_cases.fit(), UNIT_ROUNDOFF[name])


@pytest.mark.parametrize(
    ("name", "reducer", "topology", "why"),
    [
        ("bf61", "two_level", Topology(2, 2, "CPU"), "Did you mean 'bf16'"),
        ("zip", "two_level", Topology(2, 2, "CPU"), "Known: none, fp16, bf16"),
        ("fp16", "reduce_to_one", Topology(1, 4, "CPU"), "there is one worker"),
        ("fp16", "ring", Topology(2, 2, "CPU"), "sums once for each worker, and 'ring'"),
    ],
)
def test_refusals(name: str, reducer: str, topology: Topology, why: str) -> None:
    with pytest.raises(StrategyError, match=why):
        check_compression(name, resolve(reducer, topology)[0], topology)


def test_a_config_knows_the_same_names() -> None:
    assert compressions() == COMPRESSIONS


def test_a_config_hands_its_compression_on() -> None:
    with pytest.raises(StrategyError, match="there is one worker"):
        build_strategy(StrategyConfig(kind="mirrored", devices=2, compression="fp16"))


def test_what_is_not_refused() -> None:
    topology = Topology(2, 2, "CPU")
    for name in compressions():
        check_compression(name, resolve("two_level", topology)[0], topology)
    check_compression("none", resolve("ring", topology)[0], topology)


def test_the_strategy_refuses_before_it_looks_for_other_workers() -> None:
    with pytest.raises(StrategyError, match="there is one worker"):
        tfdp.strategy("mirrored", devices=2, compression="bf16")
