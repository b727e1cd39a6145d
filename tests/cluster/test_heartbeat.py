"""The record of a worker, written in one process and read in another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tfdp.cluster import heartbeat
from tfdp.cluster.absence import Absence, read_absent, tell_absent
from tfdp.cluster.heartbeat import Activity, create_record, read_record

pytestmark = pytest.mark.multi_process

DEADLINE_SECONDS = 20.0

PRELUDE = """
import os, signal, subprocess, sys, threading, time
from tfdp.cluster import heartbeat
from tfdp.cluster.heartbeat import Activity, current
def say(text):
    print(text, flush=True)
"""


@pytest.fixture(name="record")
def _record(tmp_path: Path) -> Path:
    create_record(tmp_path / "record")
    return tmp_path / "record"


@contextmanager
def worker(code: str, record: Path, repository: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has said "ready", and waits for a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{PRELUDE}\n{code}\nsay('ready')\nsys.stdin.readline()"],
        env=os.environ | {"PYTHONPATH": str(repository), "TFDP_HEARTBEAT": str(record)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    killer = threading.Timer(DEADLINE_SECONDS, process.kill)
    killer.start()
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert "ready\n" in lines
        yield process
    finally:
        process.kill()
        process.communicate()
        killer.cancel()


def test_what_a_worker_writes_is_read(record: Path, repository: Path) -> None:
    assert read_record(record) is None
    code = """
current().begin_epoch(3, 120)
current().enter(Activity.READING)
current().finish_step(Activity.BATCH_CALLBACK)
"""
    with worker(code, record, repository) as process:
        beat = read_record(record)
        assert beat is not None
        assert beat.process == process.pid
        assert (beat.activity, beat.step, beat.epoch) == (Activity.BATCH_CALLBACK, 121, 3)
        assert beat.progress == 4  # the start, and three more
        assert 0 <= time.monotonic() - beat.since < 10
        time.sleep(2.5)
        later = read_record(record)
        assert later is not None
        assert later.progress == beat.progress
        assert 2 <= later.ticks - beat.ticks <= 3


def test_ticks_stand_still_while_the_process_is_stopped(record: Path, repository: Path) -> None:
    with worker("current()", record, repository) as process:
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        beat = read_record(record)
        time.sleep(1.5)
        assert read_record(record) == beat


def test_stacks_are_written_on_the_signal(record: Path, repository: Path) -> None:
    with worker(
        "current()\ndef here(): sys.stdin.readline()\nsay('ready'); here()", record, repository
    ) as process:
        time.sleep(0.3)  # until it is there
        beat = read_record(record)
        assert beat is not None
        assert beat.writes_stacks
        os.kill(beat.process, heartbeat.STACKS_SIGNAL)
        assert process.stderr is not None
        told = iter(process.stderr.readline, "")
        assert any("in here" in line for line in told)
        assert process.poll() is None


@pytest.mark.parametrize(
    "code",
    [
        "signal.signal(signal.SIGUSR1, lambda *_: None)\ncurrent()",
        "signal.signal(signal.SIGUSR1, signal.SIG_IGN)\ncurrent()",
        "sys.__stderr__ = None\ncurrent()",
    ],
)
def test_a_program_that_cannot_write_stacks_is_not_asked(
    code: str, record: Path, repository: Path
) -> None:
    with worker(code, record, repository):
        beat = read_record(record)
        assert beat is not None
        assert not beat.writes_stacks


def test_the_children_of_a_worker_leave_its_record_alone(record: Path, repository: Path) -> None:
    code = """
current().enter(Activity.STEP)
if not os.fork():
    current().enter(Activity.FINISHED)
    with heartbeat.activity("validating"):
        os._exit(0)
os.wait()
child = "from tfdp.cluster.heartbeat import *; current().enter(Activity.FINISHED)"
subprocess.run([sys.executable, "-c", child], check=True)
"""
    with worker(code, record, repository) as process:
        beat = read_record(record)
        assert beat is not None
        assert (beat.process, beat.activity) == (process.pid, Activity.STEP)


def test_the_next_program_of_a_script_has_the_record(record: Path, repository: Path) -> None:
    environ = os.environ | {"PYTHONPATH": str(repository), "TFDP_HEARTBEAT": str(record)}
    code = f"{PRELUDE}\ncurrent()"
    subprocess.run([sys.executable, "-c", code], env=environ, check=True, timeout=DEADLINE_SECONDS)
    ended = read_record(record)
    assert ended is not None
    assert ended.activity is Activity.ENDING
    with worker("current()", record, repository) as process:
        beat = read_record(record)
        assert beat is not None
        assert (beat.process, beat.activity) == (process.pid, Activity.STARTING)


def test_a_block_and_what_was_before(record: Path, repository: Path) -> None:
    code = """
current().enter(Activity.STEP)
def others():
    with heartbeat.activity("saving a checkpoint"):
        say(current().activity.name)
thread = threading.Thread(target=others)
thread.start()
thread.join()
with heartbeat.activity("saving a checkpoint"):
    say(current().activity.name)
say(current().activity.name)
"""
    process = subprocess.run(
        [sys.executable, "-c", PRELUDE + code],
        env=os.environ | {"PYTHONPATH": str(repository), "TFDP_HEARTBEAT": str(record)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=True,
    )
    # What another thread does is not what the worker does.
    assert process.stdout.split() == ["STEP", "SAVING", "STEP"]


def test_an_unknown_activity() -> None:
    with pytest.raises(ValueError, match=r'"resting" is no activity; there are: starting, '):
        heartbeat.activity("resting").__enter__()


@pytest.mark.parametrize("name", ["PMI_RANK", "OMPI_COMM_WORLD_RANK"])
def test_a_rank_does_not_speak_for_all(
    name: str, record: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "0")
    with worker("current().enter(Activity.STEP)", record, repository):
        assert read_record(record) is None


@pytest.mark.parametrize("content", [b"", b"another file", b"x" * 72])
def test_a_file_that_is_no_record(content: bytes, tmp_path: Path, repository: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert read_record(path) is None
    if len(content) < 72:
        with worker("current().enter(Activity.STEP)", path, repository):
            assert path.read_bytes() == content


def test_without_a_launcher_nothing_happens() -> None:
    before = threading.active_count()
    code = f"{PRELUDE}\ncurrent().enter(Activity.STEP); say(threading.active_count())"
    environ = {k: v for k, v in os.environ.items() if k != "TFDP_HEARTBEAT"}
    for variables in ({}, {"TFDP_HEARTBEAT": "/no/such/file"}):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environ | variables,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=True,
        )
        assert done.stdout == "1\n"
    assert threading.active_count() == before


def test_who_is_absent_reaches_the_launcher(tmp_path: Path) -> None:
    record = tmp_path / "record"
    assert read_absent(record) == Absence()
    told = Absence(frozenset({"a:1", "b:2"}), frozenset({"c:3"}))
    tell_absent(told, {"TFDP_HEARTBEAT": str(record)})
    assert read_absent(record) == told
    tell_absent(told, {})
    assert [path.name for path in tmp_path.iterdir()] == ["record.absent"]
