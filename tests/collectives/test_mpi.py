"""The `mpi` reducer between two real MPI processes, and what it refuses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.collectives import answers, worker_cases
from tests.collectives.mpi_group import run
from tfdp.collectives import Topology, resolve
from tfdp.collectives.mpi import Mpi
from tfdp.errors import StrategyError


@pytest.fixture(scope="module", params=["one_device", "two_devices"])
def results(request: pytest.FixtureRequest, tmp_path_factory: Any) -> list[dict[str, Any]]:
    return run(request.param, tmp_path_factory.mktemp("mpi"))


@pytest.mark.multi_process
@pytest.mark.parametrize("dtype", worker_cases.DTYPES)
def test_sum(results: list[dict[str, Any]], dtype: str) -> None:
    answers.check_sums(results, dtype)


@pytest.mark.multi_process
@pytest.mark.parametrize("dtype", worker_cases.DTYPES[:4])
def test_rounding_stays_within_the_bound_and_is_the_same_everywhere(
    results: list[dict[str, Any]], dtype: str
) -> None:
    answers.check_rounding(results, dtype)


@pytest.mark.multi_process
def test_mean(results: list[dict[str, Any]]) -> None:
    answers.check_mean(results)


@pytest.mark.multi_process
def test_tensors_of_several_buckets(results: list[dict[str, Any]]) -> None:
    answers.check_large(results)


@pytest.mark.multi_process
def test_sparse_gradients_of_different_lengths(results: list[dict[str, Any]]) -> None:
    answers.check_slices(results)


@pytest.mark.multi_process
def test_training_equals_one_device(results: list[dict[str, Any]]) -> None:
    answers.check_fit(results, worker_cases.fit())


@pytest.mark.multi_process
def test_a_reduction_in_a_branch_is_refused(results: list[dict[str, Any]]) -> None:
    for result in results:
        assert "inside a branch (tf.cond)" in result["refused"]
        assert 'cross_device_ops="ring"' in result["refused"]
        if "reduction" in result:
            assert "one order of reductions" in result["refused by the reduction"]


@pytest.mark.multi_process
def test_a_step_has_few_reductions(results: list[dict[str, Any]]) -> None:
    answers.check_reductions_of_a_step(results)


@pytest.mark.multi_process
def test_the_reduction_itself(results: list[dict[str, Any]]) -> None:
    """A condition, gathers of different lengths and of bool, outside of a graph."""
    if "reduction" in results[0]:
        answers.check_reduction([result["reduction"] for result in results])
        answers.check_kept([result["kept"] for result in results])


@pytest.mark.multi_process
def test_the_reduction_between_workers_that_share_no_memory(results: list[dict[str, Any]]) -> None:
    """What workers on several machines do, here on one."""
    if "sent" in results[0]:
        answers.check_reduction([result["sent"] for result in results])
        answers.check_kept([result["sent kept"] for result in results])


@pytest.mark.multi_process
@pytest.mark.parametrize("way", ["sent", "shared"])
def test_several_vectors_at_once(results: list[dict[str, Any]], way: str) -> None:
    if f"{way} all" in results[0]:
        answers.check_several([result[f"{way} all"] for result in results])


@pytest.mark.multi_process
def test_a_cluster_of_another_size_than_mpi_is_refused(tmp_path: Path) -> None:
    for result in run("other_size", tmp_path):
        assert result["type"] == "StrategyError"
        assert "MPI runs 2 processes and the cluster has 3 workers" in result["error"]
        assert "mpiexec -n 3" in result["error"]


@pytest.mark.multi_process
def test_another_rank_than_the_index_of_the_worker_is_refused(tmp_path: Path) -> None:
    for rank, result in enumerate(run("other_rank", tmp_path)):
        assert result["type"] == "ClusterError"
        assert f"worker {1 - rank} of the cluster and rank {rank} of MPI" in result["error"]


def test_without_mpi4py_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(StrategyError, match=r"pip install \"tfdp\[mpi\]\""):
        resolve("mpi", Topology(2, 1, "CPU"))


def test_one_worker_has_nothing_to_reduce_over_mpi() -> None:
    reason = Mpi().refusal(Topology(1, 4, "CPU"))
    assert reason is not None
    assert "several workers" in reason
