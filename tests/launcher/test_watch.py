"""Groups of real processes that do not go on; those without TensorFlow beat by themselves."""

from __future__ import annotations

import io
import os
import re
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.launcher.test_supervisor import plan_for
from tfdp.errors import StalledError, WorkerError
from tfdp.launcher import api, stalls
from tfdp.launcher.group import Failure, GroupResult
from tfdp.launcher.report import describe
from tfdp.launcher.supervisor import supervise

pytestmark = pytest.mark.multi_process

BEATS = """
from tfdp.cluster.heartbeat import Activity, current
beat = current()
def train(steps):
    for _ in range(steps):
        beat.enter(Activity.READING)
        beat.enter(Activity.STEP)
        time.sleep(0.05)
        beat.finish_step(Activity.BATCH_CALLBACK)
def wait_for_the_others():
    beat.enter(Activity.STEP)
    time.sleep(60)
"""


def run(
    code: str, folder: Path, repository: Path, *, stall: float | None = 1.0, **changes: Any
) -> tuple[GroupResult, float]:
    """The result, and how many seconds it took."""
    plan = plan_for(BEATS + textwrap.dedent(code), folder, stall_timeout_seconds=stall, **changes)
    start = time.monotonic()
    result = supervise(plan, os.environ | {"PYTHONPATH": str(repository)}, io.StringIO())
    assert psutil.Process().children(recursive=True) == []
    return result, time.monotonic() - start


def stalled(result: GroupResult) -> Failure:
    assert result.failure is not None, result
    assert result.failure.stall is not None, describe(result.failure)
    assert (result.status, result.failure.exit.status) == (79, 79)
    return result.failure


def test_a_stopped_worker(tmp_path: Path, repository: Path) -> None:
    code = """
        train(3)
        if TASK == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        wait_for_the_others()
    """
    result, seconds = run(code, tmp_path, repository)
    failure = stalled(result)
    assert seconds < 8
    assert failure.exit.index == 1
    text = describe(failure)
    assert text.startswith("worker 1 stalled, ")
    assert "its process has been stopped for 1 s; it is in a callback at the end of a batch" in text
    assert "worker 0 is in a training step for " in text
    # Both were asked what they do: the one that was stopped too, after it was continued.
    assert "in wait_for_the_others" in (tmp_path / "worker-0.log").read_text()
    assert "most recent call first" in (tmp_path / "worker-1.log").read_text()
    assert failure.stacks == (tmp_path / "worker-0.log", tmp_path / "worker-1.log")


@pytest.mark.parametrize(
    ("activity", "where"),
    [
        ("EPOCH_CALLBACK", "it is in a callback at the end of an epoch for "),
        ("READING", "it is reading data for "),
    ],
)
def test_a_worker_that_the_others_wait_for(
    activity: str, where: str, tmp_path: Path, repository: Path
) -> None:
    code = f"""
        train(3)
        def stuck():
            beat.enter(Activity.{activity})
            time.sleep(60)
        stuck() if TASK == 0 else wait_for_the_others()
    """
    failure = stalled(run(code, tmp_path, repository)[0])
    assert failure.exit.index == 0
    assert failure.stall is not None
    assert failure.stall.startswith(where)
    assert "worker 1 is in a training step for " in failure.stall
    assert any("in stuck" in line for line in failure.lines)


def test_a_long_build_is_left_alone(tmp_path: Path, repository: Path) -> None:
    code = """
        beat.enter(Activity.BUILDING)
        start = time.monotonic()
        while TASK == 0 and time.monotonic() - start < 2.5:
            sum(range(100_000))
        while TASK == 1 and time.monotonic() - start < 2.5:
            time.sleep(0.1)
        train(2)
    """
    assert run(code, tmp_path, repository)[0] == GroupResult()


def test_programs_without_beats_are_left_alone_unless_they_are_stopped(
    tmp_path: Path, repository: Path
) -> None:
    plain = "time.sleep(2)"
    plan = plan_for(plain, tmp_path, stall_timeout_seconds=1.0)
    assert supervise(plan, dict(os.environ), io.StringIO()) == GroupResult()
    plan = plan_for(
        "if TASK: os.kill(os.getpid(), signal.SIGSTOP)\ntime.sleep(60)",
        tmp_path,
        stall_timeout_seconds=1.0,
    )
    failure = stalled(supervise(plan, dict(os.environ), io.StringIO()))
    assert failure.stall is not None
    assert (failure.exit.index, failure.stacks) == (1, ())
    assert failure.stall.startswith("its process has been stopped for 1 s")


def test_a_program_behind_a_shell_script_is_found(tmp_path: Path, repository: Path) -> None:
    code = BEATS + "train(2)\nbeat.enter(Activity.READING)\nos.kill(os.getpid(), signal.SIGSTOP)"
    command = plan_for(code, tmp_path).command(0)
    plan = plan_for(
        "",
        tmp_path,
        workers=1,
        stall_timeout_seconds=1.0,
        command=lambda _: ["/bin/sh", "-c", '"$@"; exit $?', "sh", *command],
    )
    failure = stalled(supervise(plan, os.environ | {"PYTHONPATH": str(repository)}, io.StringIO()))
    assert failure.stall is not None
    assert "has been stopped for 1 s; it is reading data" in failure.stall
    assert failure.stacks == (tmp_path / "worker-0.log",)


def test_without_a_time_out_nobody_looks(tmp_path: Path, repository: Path) -> None:
    code = "train(1)\nbeat.enter(Activity.READING)\ntime.sleep(2)"
    assert run(code, tmp_path, repository, stall=None)[0] == GroupResult()


def test_a_stalled_group_is_started_again(tmp_path: Path, repository: Path) -> None:
    code = """
        train(2)
        if RESTARTS == 0 and TASK == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        if RESTARTS == 0:
            wait_for_the_others()
    """
    assert run(code, tmp_path, repository, max_restarts=1)[0] == GroupResult()
    assert (tmp_path / "worker-1.restart-1.log").exists()


def test_a_worker_that_does_not_end_is_reported_with_its_error(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow can hang when the interpreter ends; the error before it is what matters."""
    monkeypatch.setattr(stalls, "_ENDING_SECONDS", 1.0)
    code = """
        train(2)
        class Hangs:
            def __del__(self, sleep=time.sleep): sleep(60)
        sys.hangs = Hangs()
        raise ValueError("the cause")
    """
    failure = stalled(run(code, tmp_path, repository, workers=1)[0])
    assert failure.stall is not None
    assert "it is ending its process for " in failure.stall
    assert "  | ValueError: the cause" in describe(failure)


def stuck_in_a_function() -> None:
    import time

    from tfdp.cluster.heartbeat import Activity, current

    current().enter(Activity.READING)
    time.sleep(60)


def test_from_python() -> None:
    with pytest.raises(
        StalledError, match=r"^worker \d stalled: it is reading data for "
    ) as caught:
        api.launch(stuck_in_a_function, stall_timeout_seconds=1.0, timeout=30)
    assert isinstance(caught.value, WorkerError)
    assert "in stuck_in_a_function" in caught.value.traceback_text


TRAINING = """
import os, signal, sys
import keras
import numpy as np
import tfdp

strategy = tfdp.strategy("multi_worker")
keras.utils.set_random_seed(1)
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
chief = strategy.tfdp_is_chief

class Stop(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1 and not chief:
            os.kill(os.getpid(), signal.SIGSTOP)

x = np.arange(64, dtype=np.float32).reshape(16, 4) / 64
y = x.sum(1)
model.fit(x, y, batch_size=4, epochs=2, verbose=0, validation_data=(x, y), callbacks=[Stop()])
"""


@pytest.mark.slow
def test_plain_keras_needs_no_call_of_its_own(tmp_path: Path, repository: Path) -> None:
    plan = plan_for(
        "",
        tmp_path,
        command=lambda _: [sys.executable, "-c", TRAINING],
        stall_timeout_seconds=3.0,
        timeout_seconds=120.0,
    )
    environ = os.environ | {"PYTHONPATH": str(repository), "CUDA_VISIBLE_DEVICES": "-1"}
    failure = stalled(supervise(plan, environ, io.StringIO()))
    assert failure.exit.index == 1
    assert failure.stall is not None
    # Four steps an epoch; the chief waits in the first of the next one.
    place = r"\(step 4, epoch 2\)"
    assert re.match(
        rf"its process has been stopped for \d s; it is in a callback at the end of an epoch for "
        rf"\d s {place}; worker 0 is in a training step for \d s {place}$",
        failure.stall,
    )
    assert "in fit" in (tmp_path / "worker-0.log").read_text()
