"""Reports, with a clock that the test moves, against numbers worked out by hand."""

from __future__ import annotations

import pytest

from tfdp.training.telemetry import Report, Telemetry


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Recorder:
    def __init__(self) -> None:
        self.steps: list[Report] = []
        self.epochs: list[Report] = []

    def step(self, report: Report) -> None:
        self.steps.append(report)

    def epoch(self, report: Report) -> None:
        self.epochs.append(report)


def run(
    steps: int | None, *, per_call: int = 1, epochs: int = 2, finished: int = 0
) -> tuple[Recorder, Telemetry]:
    """Three steps an epoch of 8, 8 and 4 rows, 2 s each; 10 s for the first; validation 5 s."""
    clock, recorder = Clock(), Recorder()
    telemetry = Telemetry(
        [recorder],
        replicas=2,
        rows_in_step=[8, 8, 4].__getitem__,
        steps=steps,
        finished_steps=finished,
        clock=clock,
    )
    telemetry.set_params({"epochs": epochs})
    for epoch in range(epochs):
        telemetry.on_epoch_begin(epoch)
        for begin in range(0, 3, per_call):
            clock.now += 10 if epoch == begin == 0 else 2 * min(per_call, 3 - begin)
            telemetry.on_train_batch_end(begin + per_call - 1, {"loss": 0.5, "accuracy": 0.25})
        clock.now += 5
        telemetry.on_epoch_end(epoch, {"loss": 0.5, "val_loss": 0.75})
    return recorder, telemetry


def test_counts_steps_and_epochs() -> None:
    recorder, telemetry = run(3, finished=30)
    assert [(r.epoch, r.step, r.total_steps) for r in recorder.steps] == [
        (1, 1, 31), (1, 2, 32), (1, 3, 33), (2, 1, 34), (2, 2, 35), (2, 3, 36),
    ]  # fmt: skip
    assert [(r.epoch, r.epochs, r.replicas) for r in recorder.epochs] == [(1, 2, 2), (2, 2, 2)]
    assert telemetry.total_steps == 36


def test_splits_the_logs() -> None:
    recorder, _ = run(3)
    assert (recorder.steps[0].loss, recorder.steps[0].metrics) == (0.5, {"accuracy": 0.25})
    assert recorder.epochs[0].metrics == {"val_loss": 0.75}


def test_the_rate_leaves_out_the_first_step_and_validation() -> None:
    recorder, _ = run(3)
    rates = [report.images_per_second for report in recorder.steps]
    assert rates == [None, 8 / 2, 12 / 4, 8 / 2, 16 / 4, 20 / 6]
    assert [report.images_per_second for report in recorder.epochs] == [12 / 4, 20 / 6]


def test_the_time_left_counts_validation_in() -> None:
    recorder, _ = run(3)
    assert recorder.steps[0].seconds_left is None
    assert recorder.steps[1].seconds_left == 2 / 1 * 4
    assert recorder.epochs[0].seconds_left == pytest.approx(9 / 2 * 3)
    assert recorder.epochs[1].seconds_left == 0


def test_the_number_of_steps_is_learnt() -> None:
    recorder, _ = run(None)
    assert [report.steps for report in recorder.steps] == [None, None, None, 3, 3, 3]
    assert recorder.steps[1].seconds_left is None


def test_several_steps_in_a_call_are_counted_once() -> None:
    recorder, telemetry = run(3, per_call=2)
    assert [(r.step, r.total_steps) for r in recorder.steps] == [(2, 2), (3, 3), (2, 5), (3, 6)]
    assert telemetry.total_steps == 6
    assert recorder.epochs[1].images_per_second == 20 / 6
