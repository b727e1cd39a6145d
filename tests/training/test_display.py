"""What the terminal shows."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.training.test_listeners import REPORT
from tfdp.training.display import (
    LiveDisplay,
    PlainDisplay,
    choose_display,
    describe,
    summary_table,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, force_terminal=terminal, width=80), text


def test_chooses_by_terminal() -> None:
    assert isinstance(choose_display(console(terminal=True)[0]), LiveDisplay)
    assert isinstance(choose_display(console(terminal=False)[0]), PlainDisplay)


def test_describes_a_report() -> None:
    assert describe(REPORT) == ("loss 0.5000, accuracy 0.2500, 100 images/s, 2 replicas, 0:04 left")
    bare = dataclasses.replace(
        REPORT, metrics={}, images_per_second=None, replicas=1, seconds_left=None
    )
    assert describe(bare) == "loss 0.5000, 1 replica"


@pytest.mark.parametrize(
    ("seconds", "text"), [(59.6, "1:00"), (61, "1:01"), (3600, "1:00:00"), (7325, "2:02:05")]
)
def test_time_left(seconds: float, text: str) -> None:
    report = dataclasses.replace(REPORT, seconds_left=seconds)
    assert describe(report).endswith(f", {text} left")


def test_plain_lines_have_no_escapes_and_come_every_few_seconds() -> None:
    shown, text = console(terminal=False)
    clock = Clock()
    with PlainDisplay(shown, every_seconds=10, clock=clock) as display:
        for clock.now in (1, 9, 10, 12, 19, 21):
            display.step(dataclasses.replace(REPORT, step=int(clock.now)))
        display.epoch(REPORT)
    lines = text.getvalue().splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "epoch 3/5, step 10/10",
        "epoch 3/5, step 21/10",
        "epoch 3/5, 7 steps",
    ]
    assert "\x1b" not in text.getvalue()


def test_the_live_line_has_everything() -> None:
    shown, text = console(terminal=True)
    with LiveDisplay(shown) as display:
        display.step(REPORT)
        display.epoch(REPORT)
    for part in ("epoch 3/5", " 7/10 ", "loss 0.5000", "100 images/s", "2 replicas", "0:04"):
        assert part in text.getvalue()


def test_the_live_display_ends_after_an_error() -> None:
    shown, text = console(terminal=True)
    with pytest.raises(ValueError, match="why"), LiveDisplay(shown):
        raise ValueError("why")
    assert "\x1b[?25h" in text.getvalue()  # the cursor is shown again


def test_the_summary_names_metrics_and_files() -> None:
    shown, text = console(terminal=False)
    shown.print(summary_table({"val_accuracy": 0.875}, {"model": Path("runs/a/model.keras")}))
    lines = [line.split() for line in text.getvalue().splitlines()]
    assert lines == [["validation", "accuracy", "0.8750"], ["model", "runs/a/model.keras"]]
