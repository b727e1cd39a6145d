"""``incidents.jsonl``."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tfdp.errors import RunError
from tfdp.training.incidents import KINDS, IncidentLog, read_incidents


def test_a_line_has_every_key(tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    before = time.time()
    IncidentLog(path).append(
        "not_finite", epoch=2, step=31, worker=1, tensor="dense/kernel", loss=float("nan")
    )
    record = json.loads(path.read_text())
    assert before <= record.pop("time") <= time.time()
    assert record == {
        "kind": "not_finite",
        "epoch": 2,
        "step": 31,
        "worker": 1,
        "details": {"tensor": "dense/kernel", "loss": None},
    }


def test_they_are_read_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    assert read_incidents(path) == []
    for step, kind in enumerate(KINDS):
        IncidentLog(path).append(kind, step=step, names=["a", float("inf")])  # type: ignore[arg-type]
    found = read_incidents(path)
    assert [(each.kind, each.step) for each in found] == [(k, s) for s, k in enumerate(KINDS)]
    assert all(each.details == {"names": ["a", None]} for each in found)
    assert found[0].epoch is None
    assert found[0].worker is None


def test_a_kind_of_ones_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"kind='fire' is not known\. Known: not_finite, drift,"):
        IncidentLog(tmp_path / "incidents.jsonl").append("fire")  # type: ignore[arg-type]
    assert not (tmp_path / "incidents.jsonl").exists()


@pytest.mark.parametrize("torn", ['{"time": 1, "ki', '{"details": "' + "x" * 10_000])
def test_what_a_killed_process_left_of_a_line_is_removed(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "incidents.jsonl"
    log = IncidentLog(path)
    log.append("resumed", step=1)
    with path.open("a") as file:
        file.write(torn)
    assert [each.step for each in read_incidents(path)] == [1]
    log.append("stopped", step=2)
    assert [each.step for each in read_incidents(path)] == [1, 2]


def test_a_file_that_holds_a_torn_line_only(tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    path.write_text('{"time": 1, "ki')
    IncidentLog(path).append("stopped", step=2)
    assert [each.step for each in read_incidents(path)] == [2]


def test_a_full_device_is_named() -> None:
    with pytest.raises(RunError, match="/dev/full: cannot be written"):
        IncidentLog(Path("/dev/full")).append("stopped")
