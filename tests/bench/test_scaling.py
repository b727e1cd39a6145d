"""What is made of the seconds of replicas; not how fast they are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.bench.stubs import stub
from tfdp.bench import scaling
from tfdp.bench.command import run_scaling
from tfdp.bench.scaling import Point, ScalingOptions, efficiencies
from tfdp.bench.scaling_report import ScalingReport
from tfdp.bench.spread import Spread, ratios
from tfdp.errors import StrategyError


def test_spread() -> None:
    spread = Spread((4.0, 1.0, 2.0, 3.0, 5.0))
    assert spread.median == 3.0
    assert spread.text(1, 10.0) == "30.0 (20.0 to 40.0)"
    assert ratios([4.0, 9.0], [2.0, 3.0]).values == (2.0, 3.0)


def test_parts_of_a_step() -> None:
    point = Point("weak", 2, 64, {"steps": [4.0, 2.0], "compute": [3.0, 1.5], "input": [0.5, 0.5]})
    assert point.samples_per_second.values == (16.0, 32.0)
    assert point.compute.values == (2.5, 1.0)
    assert point.communication.values == (1.0, 0.5)


def test_efficiency_is_speed_per_replica_over_that_of_the_first() -> None:
    def point(kind: str, replicas: int, batch: int, seconds: list[float]) -> Point:
        return Point(kind, replicas, batch, {"steps": seconds, "compute": [], "input": []})

    points = [
        point("weak", 1, 8, [1.0, 2.0]),
        point("weak", 4, 32, [1.0, 4.0]),  # perfect, then half
        point("strong", 1, 8, [1.0, 2.0]),
        point("strong", 4, 8, [0.5, 0.5]),  # twice as fast, then four times
    ]
    assert [each.values for each in efficiencies(points)] == [
        (1.0, 1.0),
        (1.0, 0.5),
        (1.0, 1.0),
        (0.5, 1.0),
    ]


@pytest.mark.multi_process
def test_one_group_for_each_number_and_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs: list[tuple[dict[str, Any], int]] = []

    def program(name: str, job: dict[str, Any], workers: int) -> Any:
        jobs.append((job, workers))
        return stub(name, workers, seconds=0.25)

    monkeypatch.setattr(scaling, "tensorflow", program)
    options = ScalingOptions(counts=(1, 2), processes=True, batch=16, rounds=2, cores=None)
    path, picture = tmp_path / "report.json", tmp_path / "picture.png"
    assert run_scaling(options, path, picture) == 0
    assert [(job["global_batch"], job["reducer"], workers) for job, workers in jobs] == [
        (16, "auto", 1),
        (32, "auto", 2),
        (16, "auto", 2),
    ]
    report = json.loads(path.read_text(encoding="utf-8"))
    assert [point["samples_per_second"]["values"] for point in report["points"]] == [
        [64.0] * 2,
        [64.0] * 2,  # 32 in the 0.5 s of the slower
        [64.0] * 2,
        [32.0] * 2,
    ]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "share" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"cores": 1}, "confines processes"),
        ({"cores": 4096, "processes": True}, "2 workers with 4096 cores each do not fit"),
    ],
)
def test_refused_options(options: dict[str, Any], why: str) -> None:
    with pytest.raises(StrategyError, match=why):
        ScalingOptions(**options)


def test_a_batch_that_leaves_a_replica_without_rows_is_refused() -> None:
    with pytest.raises(StrategyError, match="a global batch of 1 leaves some of 2 replicas"):
        scaling.measure_scaling(ScalingOptions(batch=1, kinds=("strong",)), lambda line: None)


def test_what_shared_cores_cannot_show_is_said() -> None:
    shared = ScalingReport(ScalingOptions(), []).lines()
    assert any("efficiency of 1/n" in line for line in shared)
    if len(os.sched_getaffinity(0)) >= 2:
        confined = ScalingReport(ScalingOptions(processes=True, cores=1), []).lines()
        assert any("1 of" in line and "to itself" in line for line in confined)
