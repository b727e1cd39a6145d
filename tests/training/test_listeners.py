"""What is written, and when a run is stopped."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest

from tfdp.training.listeners import MetricsWriter
from tfdp.training.metrics_log import MetricsLog, read_metrics
from tfdp.training.telemetry import Report

REPORT = Report(
    epoch=3,
    epochs=5,
    step=7,
    steps=10,
    total_steps=27,
    loss=0.5,
    metrics={"accuracy": 0.25},
    images_per_second=100.0,
    replicas=2,
    seconds_left=4.0,
)


def test_a_line_has_every_key(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    before = time.time()
    MetricsWriter(MetricsLog(path)).epoch(REPORT)
    (record,) = read_metrics(path)
    assert before <= record.pop("time") <= time.time()
    assert record == {
        "kind": "epoch",
        "epoch": 3,
        "step": 27,
        "loss": 0.5,
        "metrics": {"accuracy": 0.25},
        "images_per_second": 100.0,
        "replicas": 2,
    }


@pytest.mark.parametrize(
    ("per_call", "written"), [(1, [4, 8, 12]), (3, [6, 9, 12]), (5, [5, 10, 15])]
)
def test_one_line_in_four_steps(tmp_path: Path, per_call: int, written: list[int]) -> None:
    path = tmp_path / "metrics.jsonl"
    writer = MetricsWriter(MetricsLog(path), every_steps=4)
    for step in range(per_call, 16, per_call):
        writer.step(dataclasses.replace(REPORT, total_steps=step))
    assert [record["step"] for record in read_metrics(path)] == written
