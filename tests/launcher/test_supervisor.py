"""Groups of small programs without TensorFlow; each test has a deadline."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tfdp.errors import RunError
from tfdp.launcher.environment import GroupShape
from tfdp.launcher.group import GroupResult
from tfdp.launcher.report import describe
from tfdp.launcher.supervisor import LaunchPlan, new_log_directory, supervise

pytestmark = pytest.mark.multi_process

DEADLINE_SECONDS = 30.0

PRELUDE = """
import json, os, signal, subprocess, sys, time
TASK = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
RESTARTS = int(os.environ["TFDP_RESTARTS"])
"""


def program(code: str) -> list[str]:
    return [sys.executable, "-c", PRELUDE + textwrap.dedent(code)]


def plan_for(code: str, folder: Path, workers: int = 2, **changes: Any) -> LaunchPlan:
    settings: dict[str, Any] = {
        "grace_seconds": 1.0,
        "backoff_seconds": 0.05,
        "timeout_seconds": DEADLINE_SECONDS,
        "log_directory": folder,
        "command": lambda _: program(code),
    }
    return LaunchPlan(shape=GroupShape(workers), **(settings | changes))


def run(code: str, folder: Path, **changes: Any) -> tuple[GroupResult, str]:
    shown = io.StringIO()
    result = supervise(plan_for(code, folder, **changes), dict(os.environ), shown)
    assert result.unfinished == ()
    return result, shown.getvalue()


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert psutil.Process().children(recursive=True) == []
    assert {thread for thread in threading.enumerate() if thread.is_alive()} <= before


def gone(pid: int, within: float = 5.0) -> bool:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie":
            return True
        time.sleep(0.05)
    return False


def pids(folder: Path) -> list[int]:
    return [int(path.read_text()) for path in sorted(folder.glob("pid-*"))]


WRITE_PID = "open(f'pid-{TASK}.tmp', 'w').write(str(os.getpid())); os.rename(f'pid-{TASK}.tmp', f'pid-{TASK}')\n"  # noqa: E501


def test_success_shows_the_first_worker_and_stores_all(tmp_path: Path) -> None:
    result, shown = run("print('hello from', TASK)", tmp_path, workers=3)
    assert result == GroupResult()
    assert shown == "[worker 0] hello from 0\n"
    logs = [(tmp_path / f"worker-{index}.log").read_text() for index in range(3)]
    assert logs == [f"hello from {index}\n" for index in range(3)]


def test_verbose_shows_all(tmp_path: Path) -> None:
    _, shown = run("print('hello from', TASK)", tmp_path, verbose=True)
    assert sorted(shown.splitlines()) == ["[worker 0] hello from 0", "[worker 1] hello from 1"]


def test_standard_error_and_progress_bars_are_shown_line_by_line(tmp_path: Path) -> None:
    result, shown = run(
        "sys.stderr.buffer.write(b'1/2\\r2/2\\x08\\x08\\r\\n'); sys.stderr.flush();"
        "sys.stdout.buffer.write(b'\\xff end')",
        tmp_path,
        workers=1,
    )
    assert result.status == 0
    assert shown.splitlines() == ["[worker 0] 1/2", "[worker 0] 2/2", "[worker 0] \ufffd end"]


def test_each_worker_gets_its_environment(tmp_path: Path) -> None:
    code = """
        keys = ("TF_CONFIG", "OMP_NUM_THREADS", "TFDP_START_TIMEOUT", "TFDP_DEVICES_PER_WORKER")
        print(json.dumps({key: os.environ.get(key) for key in keys}))
    """
    shape = GroupShape(2, devices_per_worker=3, start_timeout_seconds=7.5)
    plan = plan_for(code, tmp_path)
    plan = LaunchPlan(shape=shape, command=plan.command, log_directory=tmp_path)
    environ = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    assert supervise(plan, environ, io.StringIO()).status == 0
    found = [json.loads((tmp_path / f"worker-{i}.log").read_text()) for i in range(2)]
    configs = [json.loads(each["TF_CONFIG"]) for each in found]
    assert [config["task"] for config in configs] == [
        {"type": "worker", "index": 0},
        {"type": "worker", "index": 1},
    ]
    assert configs[0]["cluster"] == configs[1]["cluster"]
    assert len(set(configs[0]["cluster"]["worker"])) == 2
    for each in found:
        assert each["OMP_NUM_THREADS"] == str(max(1, len(os.sched_getaffinity(0)) // 2))
        assert (each["TFDP_START_TIMEOUT"], each["TFDP_DEVICES_PER_WORKER"]) == ("7.5", "3")


def test_the_first_failure_ends_all_and_is_reported(tmp_path: Path) -> None:
    code = """
        print("before")
        if TASK == 1:
            time.sleep(0.3)
            raise ValueError("the cause")
        time.sleep(60)
    """
    start = time.monotonic()
    result, _ = run(code, tmp_path, workers=3)
    assert time.monotonic() - start < 4
    assert result.failure is not None
    assert (result.failure.exit.index, result.failure.exit.code, result.status) == (1, 1, 1)
    assert result.failure.lines[0] == "Traceback (most recent call last):"
    assert result.failure.lines[-1] == "ValueError: the cause"
    text = describe(result.failure)
    assert text.startswith("worker 1 failed first, with exit code 1, 0.")
    assert "  | ValueError: the cause\n" in text
    assert text.endswith(f"its whole output: {tmp_path / 'worker-1.log'}")


def test_a_survivor_that_complains_later_is_not_the_first(tmp_path: Path) -> None:
    code = """
        def complain(*_):
            print("error: another worker is gone", flush=True)
            sys.exit(9)
        signal.signal(signal.SIGTERM, complain)
        if TASK == 1:
            time.sleep(0.5)
            os._exit(4)
        time.sleep(60)
    """
    result, _ = run(code, tmp_path)
    assert result.failure is not None
    assert (result.failure.exit.index, result.status) == (1, 4)


def test_a_killed_worker_is_noticed_at_once(tmp_path: Path) -> None:
    code = "time.sleep(0.3)\nif TASK: os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(60)"
    start = time.monotonic()
    result, _ = run(code, tmp_path)
    assert time.monotonic() - start < 3
    assert result.failure is not None
    assert result.failure.exit.describe() == "signal 9 (SIGKILL)"
    assert result.status == 137


def test_the_worst_of_several_exit_codes(tmp_path: Path) -> None:
    code = "time.sleep(0.5 - time.time() % 0.5)\nos._exit((3, 5, 0)[TASK])"
    statuses = {run(code, tmp_path, workers=3)[0].status for _ in range(2)}
    assert statuses <= {3, 5}
    assert statuses


def test_workers_that_ignore_sigterm_are_killed_with_their_children(tmp_path: Path) -> None:
    code = f"""
        os.chdir({str(tmp_path)!r})
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if TASK == 1:
            time.sleep(1)
            sys.exit(3)
        child = subprocess.Popen([sys.executable, "-c",
            "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"])
        open("pid-0", "w").write(str(os.getpid()))
        open("pid-child", "w").write(str(child.pid))
        time.sleep(60)
    """
    start = time.monotonic()
    result, _ = run(code, tmp_path, grace_seconds=0.5)
    assert time.monotonic() - start < 5
    assert result.status == 3
    assert len(pids(tmp_path)) == 2
    assert all(gone(pid) for pid in pids(tmp_path))


def test_a_child_that_outlives_its_worker_is_ended(tmp_path: Path) -> None:
    code = f"""
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        open({str(tmp_path / "pid-child")!r}, "w").write(str(child.pid))
    """
    start = time.monotonic()
    result, _ = run(code, tmp_path, workers=1)
    assert time.monotonic() - start < 4
    assert result == GroupResult()
    assert all(gone(pid) for pid in pids(tmp_path))


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    result, _ = run("", tmp_path, command=lambda _: ["/no/such/program"])
    assert result.status == 127
    assert result.failure is not None
    assert result.failure.lines == (
        "/no/such/program cannot be started: No such file or directory",
    )


def test_arguments_are_not_given_to_a_shell(tmp_path: Path) -> None:
    arguments = ["$HOME", "a b", "; touch x", "*"]
    _, shown = run(
        "", tmp_path, workers=1, command=lambda _: [*program("print(sys.argv[1:])"), *arguments]
    )
    assert shown == f"[worker 0] {arguments}\n"


def test_restarts_with_fresh_ports(tmp_path: Path) -> None:
    code = "print(os.environ['TF_CONFIG'])\nsys.exit(0 if RESTARTS == 2 else 5)"
    result, _ = run(code, tmp_path, workers=1, max_restarts=3)
    assert result == GroupResult()
    names = ["worker-0.log", "worker-0.restart-1.log", "worker-0.restart-2.log"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    ports = {json.loads((tmp_path / n).read_text())["cluster"]["worker"][0] for n in names}
    assert len(ports) == 3


def test_restarts_are_bounded(tmp_path: Path) -> None:
    result, shown = run("print(RESTARTS)\nsys.exit(5)", tmp_path, workers=1, max_restarts=2)
    assert result.status == 5
    assert shown == "[worker 0] 0\n[worker 0] 1\n[worker 0] 2\n"


def test_an_exit_code_that_would_come_back_is_final(tmp_path: Path) -> None:
    result, shown = run(
        "print(RESTARTS)\nsys.exit(2)",
        tmp_path,
        workers=1,
        max_restarts=2,
        final_statuses=frozenset({2}),
    )
    assert (result.status, shown) == (2, "[worker 0] 0\n")


def test_the_time_is_up(tmp_path: Path) -> None:
    code = "if TASK != 1: time.sleep(60)"
    plan = plan_for(code, tmp_path, workers=3, timeout_seconds=1.0)
    result = supervise(plan, dict(os.environ), io.StringIO())
    assert result.unfinished == (0, 2)
    assert result.failure is None


def test_a_reader_that_leaves_ends_the_group(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    code = "while True:\n    print('x')\n    time.sleep(0.1)"
    stream = os.fdopen(writing, "w")
    with pytest.raises(BrokenPipeError):
        supervise(plan_for(code, tmp_path), dict(os.environ), stream)
    with contextlib.suppress(BrokenPipeError):  # it still holds what could not be written
        stream.close()


def test_logs_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(RunError, match=r"logs cannot be written to .*file"):
        new_log_directory(file / "logs")


LAUNCHER = """
import os, sys, pathlib
from tests.launcher.test_supervisor import plan_for
from tfdp.launcher.supervisor import supervise
code, folder, grace = sys.argv[1:]
os.chdir(folder)
result = supervise(
    plan_for(code, pathlib.Path(folder), grace_seconds=float(grace)), dict(os.environ), sys.stdout
)
print(result.interrupt, result.status)
"""


@contextlib.contextmanager
def launcher(
    repository: Path, code: str, folder: Path, grace: float = 20.0
) -> Iterator[subprocess.Popen[str]]:
    """A launcher in a process of its own, whose two workers run already."""
    environ = os.environ | {"PYTHONPATH": str(repository)}
    command = [sys.executable, "-c", LAUNCHER, WRITE_PID + textwrap.dedent(code), str(folder)]
    process = subprocess.Popen(
        [*command, str(grace)],
        cwd=repository,
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(list(folder.glob("pid-?"))) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all(number: signal.Signals, repository: Path, tmp_path: Path) -> None:
    with launcher(repository, "time.sleep(60)", tmp_path) as process:
        process.send_signal(number)
        shown, _ = process.communicate(timeout=5)
        assert shown.endswith(f"{number.value} 0\n")
        assert all(gone(pid, 0.1) for pid in pids(tmp_path))


STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen(f'pid-{TASK}-deaf', 'w').write(str(os.getpid()))\ntime.sleep(60)"  # noqa: E501


def test_a_second_ctrl_c_kills_at_once(repository: Path, tmp_path: Path) -> None:
    with launcher(repository, STUBBORN, tmp_path) as process:
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=5)
        assert all(gone(pid, 0.1) for pid in pids(tmp_path))


@pytest.mark.parametrize("code", ["time.sleep(60)", STUBBORN])
def test_no_worker_outlives_a_launcher_that_is_killed(
    code: str, repository: Path, tmp_path: Path
) -> None:
    with launcher(repository, code, tmp_path) as process:
        process.kill()
        process.wait()
        assert all(gone(pid) for pid in pids(tmp_path))


def test_children_of_workers_do_not_outlive_a_launcher_that_is_killed(
    repository: Path, tmp_path: Path
) -> None:
    code = """
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        open(f"pid-{TASK}-child.tmp", "w").write(str(child.pid))
        os.rename(f"pid-{TASK}-child.tmp", f"pid-{TASK}-child")
        time.sleep(60)
    """
    with launcher(repository, code, tmp_path) as process:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(list(tmp_path.glob("pid-?-child"))) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.kill()
        process.wait()
        assert len(pids(tmp_path)) == 4
        assert all(gone(pid, 8) for pid in pids(tmp_path))
