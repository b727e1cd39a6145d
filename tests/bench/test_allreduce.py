"""What is measured, on replicas of this process and on workers; not how fast it is."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdp.bench import candidates, timing
from tfdp.bench.allreduce import AllReduceOptions, measure
from tfdp.bench.candidates import Candidate, choose
from tfdp.bench.command import run_allreduce
from tfdp.bench.groups import slowest
from tfdp.collectives import Topology
from tfdp.errors import RunError, StrategyError

TWO_WORKERS = Topology(2, 1, "CPU")


def test_replicas_of_one_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = AllReduceOptions(devices=2, sizes=(4, 4096, 65536), rounds=2, repetitions=3)
    path = tmp_path / "report.json"
    assert run_allreduce(options, path) == 0
    report = json.loads(path.read_text(encoding="utf-8"))
    measured = report["measurements"]
    names = ["hierarchical_copy", "reduce_to_one", "ring"]
    assert [(each["reducer"], each["size_bytes"]) for each in measured] == [
        (name, size) for name in names for size in options.sizes
    ]
    for each in measured:
        assert len(each["seconds"]) == 6
        assert min(each["seconds"]) > 0
        assert each["busbw_bytes_per_second"] == each["algbw_bytes_per_second"]  # two replicas
    assert set(report["fits"]) == set(names)
    assert {"nccl", "mpi", "two_level"} <= set(report["refused"])
    printed = capsys.readouterr().out
    for text in (*names, "64 kB", "busbw", "latency", "not measured: nccl"):
        assert text in printed


def test_the_sum_that_is_timed_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timed function sums ones over all replicas, and a turn is a turn of each strategy."""
    order: list[tuple[int, int]] = []
    real = timing.reduction_of

    def spy(made: Any, size: int) -> Any:
        call = real(made, size)

        def counted() -> None:
            order.append((size, made.num_replicas_in_sync))
            call()

        return counted

    sums = []
    numpy = type(tf.constant(0.0)).numpy

    def kept(tensor: Any) -> Any:
        value = numpy(tensor)
        if np.ndim(value) == 0:
            sums.append(float(value))
        return value

    monkeypatch.setattr(timing, "reduction_of", spy)
    monkeypatch.setattr(type(tf.constant(0.0)), "numpy", kept)
    made = [timing.strategy("mirrored", devices=count) for count in (2, 3)]
    seconds = timing.time_in_turn(made, [8], 2)
    assert order == [(8, 2), (8, 3)] * 4  # two to warm up
    assert sums == [2.0, 2.0, 3.0, 3.0, 3.0] * 4
    assert [[len(of_size) for of_size in each] for each in seconds] == [[2], [2]]


@pytest.mark.multi_process
@pytest.mark.parametrize("reducer", ["two_level+bf16", "mpi"])
def test_workers(reducer: str) -> None:
    if reducer == "mpi" and (reason := candidates._refusal("mpi", TWO_WORKERS)):
        pytest.skip(reason)
    options = AllReduceOptions(
        workers=2,
        devices=1,
        sizes=(4, 4096),
        reducers=(reducer,),
        rounds=1,
        repetitions=3,
        timeout_seconds=120,
    )
    report = measure(options)
    assert [(m.reducer, m.size_bytes, m.replicas) for m in report.measurements] == [
        (reducer, 4, 2),
        (reducer, 4096, 2),
    ]
    assert all(len(m.seconds) == 3 and min(m.seconds) > 0 for m in report.measurements)


def test_of_several_workers_the_slowest_counts() -> None:
    assert slowest([[[1.0, 5.0], [2.0]], [[3.0, 4.0], [1.0]]]) == [[3.0, 5.0], [2.0]]


def test_all_that_can_run_is_chosen_and_the_others_have_a_reason() -> None:
    chosen, refused = choose(None, Topology(1, 3, "CPU"))
    assert [str(each) for each in chosen] == ["reduce_to_one", "ring"]
    assert "two halves" in refused["hierarchical_copy"]
    assert "on the CPU" in refused["nccl"]


def test_mpi_is_measured_where_it_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(candidates, "mpiexec", lambda: "/usr/bin/mpiexec")
    with pytest.raises(StrategyError, match=r"mpi cannot serve 2 workers.*no mpi4py: pip install"):
        choose(["mpi"], TWO_WORKERS)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert choose(["mpi", "mpi+fp16", "mpi"], TWO_WORKERS)[0] == [
        Candidate("mpi"),
        Candidate("mpi", "fp16"),
    ]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("rign", "Did you mean 'ring'"),
        ("auto", "chooses a reducer and is none"),
        ("reduce_to_one", "one host only"),
        ("ring+bf16", "sums once for each worker"),
        ("two_level+zip", "Known: none, fp16, bf16"),
    ],
)
def test_refusals(wanted: str, why: str) -> None:
    with pytest.raises(StrategyError, match=why):
        choose([wanted], TWO_WORKERS)


def test_one_replica_has_nothing_to_reduce() -> None:
    with pytest.raises(StrategyError, match="two replicas or more"):
        AllReduceOptions(workers=1, devices=1)


def test_a_file_that_cannot_be_written_is_found_out_first(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be written"):
        run_allreduce(AllReduceOptions(sizes=(4,)), tmp_path / "missing" / "report.json")
