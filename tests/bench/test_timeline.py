"""Times of a step: what is read from them, and that they are taken where they should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tfdp.bench.spread import Spread
from tfdp.bench.timeline import MANY, ONE, SILENT, Timeline, TimelineOptions, predict_saving
from tfdp.bench.timeline_report import TimelineReport
from tfdp.bench.timeline_step import Bucket, Step, predict_tail, read_step
from tfdp.errors import StrategyError

NOTED = {
    "begin": 100.0,
    "end": 112.0,
    "losses": [102.0],
    "buckets": [
        {"bytes": 30, "ready": [104.0], "ended": [106.0]},
        {"bytes": 20, "ready": [105.0], "ended": [109.0]},  # waits for the first until 106
        {"bytes": 10, "ready": [108.0], "ended": [111.0]},  # and this one until 109
    ],
}


def test_a_step_is_read() -> None:
    step = read_step(NOTED, 0)
    assert (step.loss, step.backward_end, step.end) == (2.0, 8.0, 12.0)
    assert [(each.begin, each.end) for each in step.buckets] == [
        (4.0, 6.0),
        (6.0, 9.0),
        (9.0, 11.0),
    ]
    assert step.communication == 7.0
    assert step.hidden == 4.0  # until 8, when the backward pass ended
    assert step.hidden_share == pytest.approx(4 / 7)


@pytest.mark.parametrize(
    ("ready", "sizes", "seconds", "tail"),
    [
        ([5.0], [7], 2.0, 2.0),  # one buffer: nothing is hidden
        ([1.0, 5.0], [1, 1], 2.0, 1.0),  # the first is done long before
        ([4.0, 5.0], [3, 1], 4.0, 3.0),  # it is not: 4 + 3 + 1 - 5
        ([0.0, 0.0, 10.0], [5, 5, 0], 4.0, 0.0),
    ],
)
def test_the_tail(ready: list[float], sizes: list[int], seconds: float, tail: float) -> None:
    assert predict_tail(ready, sizes, seconds) == pytest.approx(tail)


def steps() -> dict[str, list[Step]]:
    silent = [Bucket(1, 1.0, 1.0, 1.0), Bucket(1, 5.0, 5.0, 5.0)]
    return {
        MANY: [Step(10.0, 0.5, (Bucket(1, 1.0, 1.0, 2.0), Bucket(1, 5.0, 5.0, 6.0)), 7.0)],
        ONE: [Step(20.0, 0.5, (Bucket(2, 5.0, 5.0, 7.0),), 8.0)],
        SILENT: [Step(30.0, 0.5, tuple(silent), 6.0)],
    }


def test_the_prediction_is_the_whole_sum_less_the_tail() -> None:
    assert predict_saving(steps()) == pytest.approx(2.0 - 1.0)


def test_trace_and_picture(tmp_path: Path) -> None:
    found = Timeline(
        steps(),
        {MANY: [7.0, 7.5], ONE: [8.0, 9.0]},
        {MANY: Spread((0.5,)), ONE: Spread((0.0,))},
        1.0,
    )
    assert found.saved.values == (1.0, 1.5)
    report = TimelineReport(TimelineOptions(), found)
    events = json.loads(report.trace())["traceEvents"]
    spans = [(e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X" and e["pid"] == 0]
    assert spans == [
        ("forward", 0.0, 0.5e6),
        ("backward", 0.5e6, 4.5e6),
        ("update", 6e6, 1e6),
        ("bucket 0", 1e6, 1e6),
        ("bucket 1", 5e6, 1e6),
    ]
    report.plot(tmp_path / "steps.png")
    assert (tmp_path / "steps.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads(report.to_json())["predicted_saving_seconds"] == 1.0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"reducer": "ring"}, "'ring' cannot be taken between workers"),
        ({"workers": 1, "devices": 2}, "'two_level' cannot be taken between devices"),
        ({"workers": 1, "reducer": "ring"}, "two replicas or more"),
    ],
)
def test_refused_options(options: dict[str, Any], why: str) -> None:
    with pytest.raises(StrategyError, match=why):
        TimelineOptions(**options)


def test_times_are_taken_in_the_order_of_a_step() -> None:
    from tfdp.bench.peers.timeline_subject import TimelineSubject

    subject = TimelineSubject(
        {
            "addresses": [],
            "model": "large_embedding",
            "global_batch": 8,
            "devices": 2,
            "reducer": "ring",
            "bucket_mb": 0.001,
            "silent": False,
        }
    )
    found = subject.take("trace", 2)
    assert len(found) == 2
    for noted in found:
        assert [each["bytes"] for each in noted["buckets"]] == [
            4 * (10 + 128 * 10),  # head, the last layer first
            4 * 128 + 4 * 64 * 128,
        ]
        for replica in (0, 1):
            step = read_step(noted, replica)
            assert 0 < step.loss <= step.buckets[0].ready <= step.buckets[1].ready < step.end
            assert all(each.ready <= each.begin <= each.end < step.end for each in step.buckets)
    assert all(each > 0 for each in subject.take("steps", 2))
