"""Which workers take part in the next start; then groups of small programs that go on smaller."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.launcher.test_supervisor import run
from tfdp.launcher.group import Failure, GroupResult
from tfdp.launcher.members import Ended, Members
from tfdp.launcher.ports import free_ports
from tfdp.launcher.process import Exit

DEADLINE_SECONDS = 60.0


def failed(index: int, code: int = 1, stall: str | None = None) -> Failure:
    return Failure(Exit(index, code, 0.0), 0.0, (), Path("log"), stall)


def learned(members: Members, *starts: Ended) -> list[tuple[int, ...]]:
    return [members.learn(ended, restarts) for restarts, ended in enumerate(starts)]


@pytest.mark.parametrize(
    ("indexes", "left_out", "remaining"),
    [
        ([1, 1], [(), (1,)], (0, 2)),
        ([1, 2, 1], [(), (), ()], (0, 1, 2)),
        ([1, 1, 2, 2], [(), (1,), (), ()], (0, 2)),  # two must remain
        ([1, 1, 1], [(), (1,), ()], (0, 2)),
        ([0, 0], [(), (0,)], (1, 2)),
    ],
)
def test_a_worker_that_fails_first_twice_is_left_out(
    indexes: list[int], left_out: list[tuple[int, ...]], remaining: tuple[int, ...]
) -> None:
    members = Members(3, (0, 1, 2), 2)
    assert learned(members, *[Ended(failed(index)) for index in indexes]) == left_out
    assert members.current == remaining


def test_without_a_least_number_all_take_part() -> None:
    members = Members(3, (0, 1, 2), None)
    ends = [Ended(failed(1), absent={2}, excluded={0})] * 3
    assert learned(members, *ends) == [(), (), ()]


def test_who_does_not_come_to_the_first_start_may_be_late() -> None:
    members = Members(3, (0,), 1)
    assert learned(members, *[Ended(failed(0, 3), absent={2})] * 2) == [(), (2,)]
    assert members.current == (0, 1)


def test_who_is_not_in_the_list_of_another_is_left_out_at_once() -> None:
    members = Members(3, (0,), 1)
    assert learned(members, Ended(failed(0, 3), excluded={1})) == [(1,)]


def test_nobody_is_left_out_when_too_few_would_remain() -> None:
    members = Members(3, (0,), 2)
    assert learned(members, *[Ended(failed(0, 3), absent={1, 2})] * 2) == [(), ()]
    assert members.current == (0, 1, 2)


@pytest.mark.parametrize(
    ("failure", "out"),
    [
        (failed(0, 1), False),  # as in UnavailableError: another machine's worker is gone
        (failed(0, 3), False),
        (failed(0, -signal.SIGABRT), False),
        (failed(0, -signal.SIGKILL), True),
        (failed(0, 79, "stopped"), True),
    ],
)
def test_with_several_machines_only_a_death_of_its_own_leaves_a_worker_out(
    failure: Failure, out: bool
) -> None:
    assert learned(Members(3, (0,), 1), *[Ended(failure)] * 2) == [(), (0,) if out else ()]
    assert learned(Members(1, (0,), 1), *[Ended(failure)] * 2) == [(), ()]


@pytest.mark.multi_process
def test_a_worker_that_dies_again_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
        workers = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]
        gpu = os.environ["CUDA_VISIBLE_DEVICES"]
        print(json.dumps([TASK, len(workers), gpu]))
        if gpu == "b":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(1 if RESTARTS == 2 else 60)
    """
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "a,b,c")
    result, _ = run(code, tmp_path, workers=3, max_restarts=3, min_workers=2)
    assert result == GroupResult()
    said = {
        path.name: json.loads(path.read_text()) for path in tmp_path.glob("worker-*.restart-2.log")
    }
    # The logs and the GPUs are those of the workers as they were; TF_CONFIG numbers them anew.
    assert said == {
        "worker-0.restart-2.log": [0, 2, "a"],
        "worker-2.restart-2.log": [1, 2, "c"],
    }


@pytest.mark.multi_process
def test_restarts_without_success_stay_bounded(tmp_path: Path) -> None:
    code = "os._exit(4) if TASK == 0 else time.sleep(60)"
    result, _ = run(code, tmp_path, workers=4, max_restarts=4, min_workers=3)
    assert result.failure is not None
    # Worker 0 twice, then worker 1, which has become the first, to the end.
    assert (result.status, result.failure.exit.index) == (4, 1)
    assert len(list(tmp_path.glob("worker-1*.log"))) == 5


# Workers that meet as those of a strategy do; then each waits for the first, as in a step.
PROGRAM = """
import json, os, pathlib, socket, sys, time
from tfdp.cluster import read_tf_config
from tfdp.cluster.rendezvous import meet, start_timeout
from tfdp.errors import ClusterError

cluster = read_tf_config(os.environ)
folder = pathlib.Path(sys.argv[1])
try:
    meet(cluster, {}, start_timeout(os.environ))
except ClusterError as error:
    print(error, flush=True)
    sys.exit(3)
hosts = [worker.partition(":")[0] for worker in cluster.workers]
port = int(cluster.workers[0].rpartition(":")[2]) + 1
own = hosts[cluster.index].replace(".", "-")
if not cluster.index:
    server = socket.create_server((hosts[0], port))
    peers = [server.accept()[0] for _ in hosts[1:]]
else:
    while True:
        try:
            peers = [socket.create_connection((hosts[0], port), timeout=5)]
            break
        except OSError:
            time.sleep(0.05)
(folder / f"met-{os.environ['TFDP_RESTARTS']}-{own}").write_text(json.dumps(hosts))
if (folder / "end").exists():
    time.sleep(0.5)
    sys.exit(0)
for peer in peers:
    peer.settimeout(60)
    peer.recv(1)
sys.exit(3)
"""


@contextmanager
def host(number: int, folder: Path, repository: Path, *options: str) -> Iterator[Any]:
    """The launcher of the machine 127.0.0.`number`."""
    command = [
        *(sys.executable, "-m", "tfdp", "launch", "--hosts", "hosts"),
        *("--host", f"127.0.0.{number}", "--start-timeout", "1", "--log-dir", f"logs-{number}"),
        *options,
        *("--", sys.executable, "-c", PROGRAM, str(folder)),
    ]
    with open(folder / f"launcher-{number}", "w") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(repository)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def hosts_file(folder: Path, count: int) -> None:
    lines = [f"127.0.0.{n + 2}:{port}" for n, port in enumerate(free_ports(count))]
    (folder / "hosts").write_text("\n".join(lines))


def met(folder: Path, number: int) -> dict[int, list[str]]:
    """By the number of restarts: with whom the worker of a machine has met."""
    found = {}
    for path in folder.glob(f"met-*-127-0-0-{number}"):
        found[int(path.name.split("-")[1])] = json.loads(path.read_text())
    return found


def told(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.glob("launcher-*")))


@pytest.mark.multi_process
def test_the_others_go_on_when_the_machine_of_the_chief_is_lost(
    tmp_path: Path, repository: Path
) -> None:
    hosts_file(tmp_path, 3)
    options = ["--min-workers", "2", "--max-restarts", "4"]
    with ExitStack() as stack:
        launchers = [
            stack.enter_context(host(number, tmp_path, repository, *options))
            for number in (2, 3, 4)
        ]
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not all(met(tmp_path, number) for number in (2, 3, 4)):
            assert time.monotonic() < deadline, told(tmp_path)
            time.sleep(0.05)
        (tmp_path / "end").write_text("")
        lost = [launchers[0].pid, *(p.pid for p in psutil.Process(launchers[0].pid).children())]
        for pid in lost:
            os.kill(pid, signal.SIGKILL)
        statuses = [each.wait(DEADLINE_SECONDS) for each in launchers[1:]]
    assert statuses == [0, 0], told(tmp_path)
    for number in (3, 4):
        # All met at first; one restart finds out that the chief stays away.
        assert [hosts for _, hosts in sorted(met(tmp_path, number).items())] == [
            ["127.0.0.2", "127.0.0.3", "127.0.0.4"],
            ["127.0.0.3", "127.0.0.4"],
        ]
        text = (tmp_path / f"launcher-{number}").read_text()
        assert "worker 0 left out: stays away, or has failed twice" in text
        assert "the group goes on with 2 workers" in text


@pytest.mark.multi_process
def test_a_machine_that_leaves_a_worker_out_takes_the_others_along(
    tmp_path: Path, repository: Path
) -> None:
    """The lists differ until the workers have told each other."""
    hosts_file(tmp_path, 3)
    lines = (tmp_path / "hosts").read_text().splitlines()
    (tmp_path / "end").write_text("")
    (tmp_path / "short").mkdir()
    (tmp_path / "short" / "hosts").write_text("\n".join(lines[:2]))
    (tmp_path / "short" / "end").write_text("")
    options = ["--min-workers", "1", "--max-restarts", "2"]
    with (
        host(2, tmp_path, repository, *options) as first,
        host(3, tmp_path / "short", repository, *options) as second,
    ):
        statuses = [each.wait(DEADLINE_SECONDS) for each in (first, second)]
    assert statuses == [0, 0], told(tmp_path) + told(tmp_path / "short")
    assert met(tmp_path, 2) == {1: ["127.0.0.2", "127.0.0.3"]}
