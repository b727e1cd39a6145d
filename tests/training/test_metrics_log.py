"""``metrics.jsonl``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfdp.errors import RunError
from tfdp.training import jsonl
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
    lines = [
        ("step", 1, 50),
        ("epoch", 1, 80),
        ("step", 2, 100),
        ("step", 2, 150),
        ("epoch", 2, 160),
    ]
    for kind, epoch, step in lines:
        log.append({"kind": kind, "epoch": epoch, "step": step})
    with path.open("a") as file:
        file.write('{"epoch": 4, "lo')

    def left() -> list[tuple[str, int, int]]:
        return [(each["kind"], each["epoch"], each["step"]) for each in read_metrics(path)]

    assert left() == lines
    log.rewind(1, 120)
    assert left() == lines[:3]
    # The checkpoint after the last step of an epoch: its validation is still to come.
    log.rewind(0, 80)
    assert left() == lines[:1]
    log.rewind(0, 0)
    assert path.read_text() == ""


def test_rewind_makes_an_empty_file_where_there_is_none(tmp_path: Path) -> None:
    MetricsLog(tmp_path / "metrics.jsonl").rewind(0, 0)
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

    monkeypatch.setattr(jsonl, "write_all", half)
    with pytest.raises(RunError, match="No space left on device"):
        log.append({"epoch": 2})
    assert path.read_text() == '{"epoch": 1}\n'


def test_a_full_device_is_named() -> None:
    with pytest.raises(RunError, match="/dev/full: cannot be written"):
        MetricsLog(Path("/dev/full")).append({"epoch": 1})
