"""What the kernel says, against what psutil reads of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tfdp.launcher.proc import process_stat, work_of_groups

pytestmark = pytest.mark.multi_process

BUSY = """
import os, time
child = os.fork()
with open("/dev/zero", "rb") as zeros, open("/dev/null", "wb") as null:
    for _ in range(50):
        null.write(zeros.read(1_000_000))
start = time.process_time()
while time.process_time() - start < 0.35:
    pass
print("ready", flush=True)
time.sleep(60)
"""


def test_the_work_of_a_process_group() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"ready\n"] * 2
        work = work_of_groups([process.pid, os.getpid()])[process.pid]
        parent = psutil.Process(process.pid)
        everyone = [parent, *parent.children()]
        times = [each.cpu_times() for each in everyone]
        assert len(everyone) == 2
        assert work.cpu_seconds == pytest.approx(sum(t.user + t.system for t in times), abs=0.05)
        assert work.cpu_seconds >= 2 * 0.3  # the kernel counts in ticks of 10 ms, for each process
        counted = [each.io_counters() for each in everyone]
        assert work.io_bytes == sum(c.read_chars + c.write_chars for c in counted)
        assert work.io_bytes >= 2 * 50 * 2 * 1_000_000
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_the_state_of_a_process() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True
    )
    try:
        stat = process_stat(process.pid)
        assert stat is not None
        assert (stat.stopped, stat.group) == (False, process.pid)
        process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + 5
        while not stat.stopped:
            assert time.monotonic() < deadline
            stat = process_stat(process.pid)
            assert stat is not None
    finally:
        process.kill()
        process.wait()
    assert process_stat(process.pid) is None


def test_a_group_that_is_not_there() -> None:
    work = work_of_groups([2**30])[2**30]
    assert (work.cpu_seconds, work.io_bytes) == (0.0, 0)
