"""The rules for groups that do not go on, on made-up observations: a second a look."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tfdp.cluster.heartbeat import Activity, Beat
from tfdp.launcher.proc import Work
from tfdp.launcher.stalls import Look, Stall, StallWatch

S = 10.0


class Worker:
    """What is seen of a made-up worker.

    Args:
      activity: what it does.
      step: finished steps.
      cpu: processor seconds that it uses in a second.
      io: bytes that it moves in a second.
      progresses: whether it goes on.
      ticks: whether its process runs.
      stopped: whether the kernel says that it is stopped.
      beats: whether it has a record.
    """

    def __init__(
        self,
        activity: Activity,
        step: int = 5,
        *,
        cpu: float = 0.0,
        io: int = 0,
        progresses: bool = False,
        ticks: bool = True,
        stopped: bool = False,
        beats: bool = True,
        since: float = 0.0,
    ) -> None:
        self.beat = Beat(1, True, activity, step, 0, 1, since, 1)
        self.work = Work(0.0, 0)
        self.cpu, self.io, self.stopped, self.beats = cpu, io, stopped, beats
        self.progresses, self.ticks = progresses, ticks

    def after_a_second(self) -> Look:
        self.work = Work(self.work.cpu_seconds + self.cpu, self.work.io_bytes + self.io)
        self.beat = replace(
            self.beat,
            ticks=self.beat.ticks + self.ticks,
            progress=self.beat.progress + self.progresses,
        )
        return Look(self.stopped, self.work, self.beat if self.beats else None)


def until_stalled(
    watch: StallWatch, workers: Mapping[int, Worker], limit: int = 200
) -> tuple[int, Stall | None]:
    """Seconds until there is a stall, and the stall."""
    for second in range(1, limit + 1):
        looks = {index: worker.after_a_second() for index, worker in workers.items()}
        stall = watch.take(looks, 1.0, float(second))
        if stall is not None:
            return second, stall
    return limit, None


def watch(*, all_here: bool = True) -> StallWatch:
    return StallWatch(S, all_here=all_here)


STEP, CALLBACK, READING = Activity.STEP, Activity.EPOCH_CALLBACK, Activity.READING


@pytest.mark.parametrize(
    ("workers", "index", "seconds"),
    [
        # Somebody is not where the others wait for him.
        ([Worker(STEP), Worker(CALLBACK)], 1, 11),
        ([Worker(STEP), Worker(READING)], 1, 11),
        ([Worker(STEP, cpu=1), Worker(READING)], 1, 11),  # waits with a busy loop, as MPI does
        ([Worker(Activity.BATCH_CALLBACK), Worker(STEP)], 0, 11),
        ([Worker(Activity.BETWEEN), Worker(CALLBACK)], 1, 11),
        ([Worker(Activity.VALIDATING), Worker(Activity.SAVING)], 1, 11),
        # Least far.
        ([Worker(STEP, 7), Worker(STEP, 6)], 1, 11),
        ([Worker(CALLBACK, 7), Worker(CALLBACK, 6), Worker(STEP, 5)], 1, 11),
        # Where all are alike, the one that has been there longest.
        ([Worker(CALLBACK, since=0.5), Worker(CALLBACK, since=0.25)], 1, 11),
        # Work is given ten times as long, whoever waits for it.
        ([Worker(STEP), Worker(CALLBACK, cpu=0.5)], 1, 101),
        ([Worker(STEP), Worker(READING, io=10**7)], 1, 101),
        ([Worker(Activity.BUILDING), Worker(Activity.BUILDING, cpu=1)], 1, 101),
        ([Worker(Activity.SAVING), Worker(Activity.SAVING, io=10**6)], 1, 101),
        # The program's own code, if others wait for it.
        ([Worker(STEP), Worker(Activity.STARTING)], 1, 101),
        ([Worker(STEP), Worker(Activity.FINISHED)], 1, 101),
        ([Worker(Activity.MEETING), Worker(Activity.MEETING, since=-1.0)], 1, 101),
        # A process that does not run.
        ([Worker(STEP), Worker(STEP, ticks=False, stopped=True)], 1, 10),
        ([Worker(STEP), Worker(STEP, ticks=False)], 1, 11),
        ([Worker(STEP, progresses=True), Worker(STEP, ticks=False, progresses=True)], 1, 11),
        ([Worker(STEP), Worker(Activity.STARTING, beats=False, stopped=True)], 1, 10),
        ([Worker(STEP, progresses=True), Worker(STEP, ticks=False, cpu=1)], 1, 101),
        ([Worker(Activity.ENDING, ticks=False)], 0, 31),
    ],
)
def test_who_is_the_cause_and_when(workers: Sequence[Worker], index: int, seconds: int) -> None:
    found, stall = until_stalled(watch(), dict(enumerate(workers)))
    assert stall is not None
    assert (stall.index, found) == (index, seconds)


@pytest.mark.parametrize(
    "workers",
    [
        [Worker(STEP), Worker(STEP, progresses=True)],
        [Worker(Activity.STARTING), Worker(Activity.STARTING)],
        [Worker(Activity.FINISHED), Worker(Activity.STARTING)],
        [Worker(STEP), Worker(STEP, beats=False)],
        [Worker(STEP, beats=False)],
        [],
    ],
)
def test_no_stall(workers: Sequence[Worker]) -> None:
    assert until_stalled(watch(), dict(enumerate(workers)))[1] is None


def test_a_worker_that_may_wait_for_another_machine_has_more_time() -> None:
    assert until_stalled(watch(all_here=False), {0: Worker(STEP)})[0] == 101
    assert until_stalled(watch(all_here=False), {0: Worker(READING)})[0] == 11


def test_long_steps_are_given_three_times_the_longest_so_far() -> None:
    watcher, worker = watch(), Worker(STEP)
    until_stalled(watcher, {0: worker}, limit=9)
    worker.beat = replace(worker.beat, step=6, progress=2)
    assert until_stalled(watcher, {0: worker})[0] == 1 + 24  # 8 looks in which it stood still


def test_steps_of_unknown_length_are_given_time_while_they_work() -> None:
    assert until_stalled(watch(), {0: Worker(STEP, cpu=1)})[0] == 101
    assert until_stalled(watch(), {0: Worker(STEP)})[0] == 11


def test_work_that_ends_does_not_count_for_long() -> None:
    watcher, worker = watch(), Worker(CALLBACK, cpu=1)
    until_stalled(watcher, {0: worker}, limit=30)
    worker.cpu = 0.0
    assert until_stalled(watcher, {0: worker})[0] in (5, 6)  # half the time-out


def test_time_in_which_nobody_looked_does_not_count() -> None:
    watcher, worker = watch(), Worker(STEP)
    watcher.take({0: worker.after_a_second()}, 1.0, 0.0)
    assert watcher.take({0: worker.after_a_second()}, 3600.0, 3600.0) is None


def test_a_warning_comes_first_and_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "tfdp.launch")
    until_stalled(watch(), {0: Worker(STEP), 1: Worker(CALLBACK, cpu=1)}, limit=60)
    (record,) = caplog.records
    assert record.getMessage() == (
        "no worker has gone on for 10 s. Worker 1: it is in a callback at the end of an epoch for "
        "11 s (step 5, epoch 1); worker 0 is in a training step for 11 s (step 5, epoch 1). If it "
        "stays so, the group is ended after 100 s"
    )


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        (
            [Worker(STEP, 7), Worker(READING, 6)],
            "it is reading data for 11 s (step 6, epoch 1); "
            "worker 0 is in a training step for 11 s (step 7, epoch 1)",
        ),
        (
            [Worker(STEP), Worker(STEP)],
            "it is in a training step for 11 s (step 5, epoch 1); worker 1 is in a training step "
            "for 11 s (step 5, epoch 1); no worker stands out",
        ),
        (
            [Worker(STEP), Worker(STEP, stopped=True)],
            "its process has been stopped for 10 s; it is in a training step for 10 s (step 5, "
            "epoch 1); worker 0 is in a training step for 10 s (step 5, epoch 1)",
        ),
    ],
)
def test_what_is_said(workers: Sequence[Worker], message: str) -> None:
    _, stall = until_stalled(watch(), dict(enumerate(workers)))
    assert stall is not None
    assert stall.message == message


def test_many_workers_are_counted() -> None:
    _, stall = until_stalled(watch(), {index: Worker(STEP, index + 1) for index in range(20)})
    assert stall is not None
    assert stall.message.endswith(
        "worker 7 is in a training step for 11 s (step 8, epoch 1) and 12 more"
    )


@pytest.mark.parametrize(("seconds", "looks"), [(60.0, 1.0), (2.0, 0.5)])
def test_how_often_it_looks(seconds: float, looks: float) -> None:
    assert StallWatch(seconds, all_here=True).look_seconds == looks


def test_work_is_looked_up_only_while_somebody_stands_still() -> None:
    watcher, worker = watch(), Worker(STEP, progresses=True)
    until_stalled(watcher, {0: worker}, limit=20)
    assert not watcher.needs_work
    worker.progresses = False
    until_stalled(watcher, {0: worker}, limit=2)
    assert watcher.needs_work
