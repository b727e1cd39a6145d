"""``metrics.jsonl``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfdp.errors import RunError
from tfdp.training import metrics_log
from tfdp.training.metrics_log import MetricsLog, read_metrics


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def test_every_line_is_strict_json(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.append({"epoch": 1, "loss": float("nan"), "metrics": {"a": float("-inf"), "b": 0.5}})
    log.append({"epoch": 1, "loss": None})
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line, parse_constant=refuse_constant) for line in lines]
    assert records == [
        {"epoch": 1, "loss": None, "metrics": {"a": None, "b": 0.5}},
        {"epoch": 1, "loss": None},
    ]


def test_rewind_drops_later_epochs_and_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path)
    for epoch in (1, 1, 2, 3):
        log.append({"epoch": epoch})
    with path.open("a") as file:
        file.write('{"epoch": 4, "lo')
    assert [record["epoch"] for record in read_metrics(path)] == [1, 1, 2, 3]
    log.rewind(2)
    assert path.read_text() == '{"epoch": 1}\n{"epoch": 1}\n{"epoch": 2}\n'
    log.rewind(0)
    assert path.read_text() == ""


def test_rewind_makes_an_empty_file_where_there_is_none(tmp_path: Path) -> None:
    MetricsLog(tmp_path / "metrics.jsonl").rewind(0)
    assert read_metrics(tmp_path / "metrics.jsonl") == []


def test_a_full_disk_leaves_no_part_of_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path)
    log.append({"epoch": 1})

    def half(file: object, content: bytes) -> None:
        file.write(content[:5])  # type: ignore[attr-defined]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(metrics_log, "_write_all", half)
    with pytest.raises(RunError, match="No space left on device"):
        log.append({"epoch": 2})
    assert path.read_text() == '{"epoch": 1}\n'


def test_a_full_device_is_named() -> None:
    with pytest.raises(RunError, match="/dev/full: cannot be written"):
        MetricsLog(Path("/dev/full")).append({"epoch": 1})
