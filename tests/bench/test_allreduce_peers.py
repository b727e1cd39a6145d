"""All-reduces beside peers: one ratio for each pair of turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bench.stubs import stub
from tfdp.bench import allreduce_peers
from tfdp.bench.allreduce import AllReduceOptions
from tfdp.bench.command import run_allreduce
from tfdp.errors import StrategyError

SECONDS = {"two_level": 0.001, "two_level+bf16": 0.002, "stock RING": 0.004}


@pytest.mark.multi_process
def test_ratios(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def program(name: str, job: dict[str, Any], workers: int) -> Any:
        assert workers == 2
        return stub(name, workers, seconds=SECONDS[name])

    monkeypatch.setattr(allreduce_peers, "tensorflow", program)
    options = AllReduceOptions(
        workers=2,
        devices=1,
        sizes=(4096, 1024**2),
        reducers=("two_level", "two_level+bf16"),
        rounds=3,
        repetitions=2,
    )
    path, picture = tmp_path / "report.json", tmp_path / "picture.png"
    assert run_allreduce(options, path, picture, peers=True) == 0
    report = json.loads(path.read_text(encoding="utf-8"))
    assert {(each["reducer"], each["size_bytes"]): each["values"] for each in report["ratios"]} == {
        ("two_level", 4096): [4.0] * 3,
        ("two_level", 1024**2): [4.0] * 3,
        ("two_level+bf16", 4096): [2.0] * 3,
        ("two_level+bf16", 1024**2): [2.0] * 3,
    }
    assert [len(each["seconds"]) for each in report["measurements"]] == [6] * 6
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "not measured: Gloo: no --peer-python" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"workers": 1, "devices": 2}, "between workers with one replica each"),
        ({"workers": 2, "devices": 1, "reducers": ("two_level+topk",)}, "a training keeps"),
    ],
)
def test_refused_options(options: dict[str, Any], why: str) -> None:
    with pytest.raises(StrategyError, match=why):
        allreduce_peers.measure_beside_peers(AllReduceOptions(**options), None, lambda line: None)
