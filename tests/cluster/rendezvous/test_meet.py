"""Workers as threads of one process, on the loopback interface; each case has a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tfdp.cluster import ClusterInfo
from tfdp.cluster.rendezvous import meet
from tfdp.errors import ClusterError

PATIENCE = 10.0
"""For cases that end as soon as everybody has come."""

SHORT = 1.5
"""For cases in which somebody does not come."""

FACTS: dict[str, str | int] = {"tensorflow": "2.21.0", "replicas": 4}


def addresses(count: int, host: str = "127.0.0.1") -> tuple[str, ...]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return tuple(f"{host}:{port}" for port in ports)


def outcome(
    workers: tuple[str, ...],
    index: int,
    facts: Mapping[str, str | int] = FACTS,
    timeout: float = PATIENCE,
) -> str | None:
    """The error's message, or None if the worker may start."""
    try:
        meet(ClusterInfo(workers, index, "worker"), facts, timeout)
    except ClusterError as error:
        return error.message
    return None


def all_of(*calls: Callable[[], str | None], within: float) -> list[str | None]:
    start = time.monotonic()
    with ThreadPoolExecutor(len(calls)) as pool:
        results = [future.result(within + 5) for future in [pool.submit(call) for call in calls]]
    assert time.monotonic() - start < within
    return results


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_all_start_together(count: int, host: str) -> None:
    workers = addresses(count, host)
    calls = [lambda index=index: outcome(workers, index) for index in range(count)]
    assert all_of(*calls, within=5) == [None] * count
    for worker in workers:  # and TensorFlow can have the ports
        socket.create_server(("127.0.0.1", int(worker.rpartition(":")[2]))).close()


def test_a_cluster_with_another_host_than_loopback_listens_on_every_interface() -> None:
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        pytest.skip("this machine cannot resolve its own name")
    workers = addresses(2, name)
    calls = [lambda index=index: outcome(workers, index) for index in range(2)]
    assert all_of(*calls, within=5) == [None, None]


def test_a_late_worker_is_waited_for() -> None:
    workers = addresses(2)

    def late() -> str | None:
        time.sleep(1)
        return outcome(workers, 1)

    assert all_of(lambda: outcome(workers, 0), late, within=5) == [None, None]


def test_a_worker_that_does_not_come_is_named_on_every_other() -> None:
    workers = addresses(3)
    calls = [lambda index=index: outcome(workers, index, timeout=SHORT) for index in (0, 2)]
    expected = (
        f"The workers cannot start together: worker 1 ({workers[1]}) did not come within 1.5 s "
        "(connection refused)"
    )
    assert all_of(*calls, within=SHORT + 1) == [expected, expected]


def test_the_earliest_deadline_ends_the_wait_of_all() -> None:
    workers = addresses(3)
    results = all_of(
        lambda: outcome(workers, 0, timeout=SHORT),
        lambda: outcome(workers, 1, timeout=5),
        within=6,
    )
    for result in results:
        assert result is not None
        assert f"worker 2 ({workers[2]}) did not come within 1.5 s" in result


def test_a_name_that_does_not_resolve() -> None:
    workers = (*addresses(2), "no-such-host.invalid:2222")
    calls = [lambda index=index: outcome(workers, index, timeout=SHORT) for index in (0, 1)]
    for result in all_of(*calls, within=SHORT + 1):
        assert result is not None
        assert (
            'worker 2 (no-such-host.invalid:2222): the name "no-such-host.invalid" does not '
            "resolve (" in result
        )


def test_a_port_in_use() -> None:
    workers = addresses(2)
    with socket.create_server(("127.0.0.1", int(workers[1].rpartition(":")[2]))):
        calls = [lambda index=index: outcome(workers, index) for index in (0, 1)]
        expected = (
            f"The workers cannot start together: worker 1 ({workers[1]}) cannot listen: another "
            "program on its host uses the port"
        )
        assert all_of(*calls, within=5) == [expected, expected]


def test_two_workers_with_one_index() -> None:
    workers = addresses(3)
    calls = [lambda index=index: outcome(workers, index, timeout=3) for index in (0, 1, 1, 2)]
    for result in all_of(*calls, within=4):
        assert result is not None
        assert "two workers have the index 1: each must have its own" in result


def test_two_workers_with_one_index_and_nobody_else() -> None:
    workers = addresses(2)
    calls = [lambda: outcome(workers, 0, timeout=SHORT) for _ in range(2)]
    for result in all_of(*calls, within=SHORT + 1):
        assert result is not None
        assert "two workers have the index 0: each must have its own" in result


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (
            {"tensorflow": "2.20.1", "replicas": 4},
            "the workers differ in tensorflow: 2.21.0 on workers 0, 2; 2.20.1 on worker 1",
        ),
        (
            {"tensorflow": "2.21.0", "replicas": 2},
            "the workers differ in replicas: 4 on workers 0, 2; 2 on worker 1",
        ),
        (
            {"tensorflow": "2.21.0"},
            "the workers differ in replicas: 4 on workers 0, 2; not set on worker 1",
        ),
    ],
)
def test_facts_that_differ(other: dict[str, str | int], problem: str) -> None:
    workers = addresses(3)
    results = all_of(
        lambda: outcome(workers, 0),
        lambda: outcome(workers, 1, other),
        lambda: outcome(workers, 2),
        within=5,
    )
    assert results == [f"The workers cannot start together: {problem}"] * 3


def test_different_lists_of_workers() -> None:
    workers = addresses(3)
    results = all_of(
        lambda: outcome(workers, 0),
        lambda: outcome(workers[:2], 1),
        lambda: outcome(workers, 2),
        within=PATIENCE + 2,
    )
    for result in results:
        assert result is not None
        assert "the workers have different lists of workers: " in result
        assert f"{', '.join(workers[:2])} on worker 1" in result


def test_workers_at_each_others_addresses() -> None:
    here, there = addresses(2)
    results = all_of(lambda: outcome((here, there), 0), lambda: outcome((there, here), 0), within=5)
    for result in results:
        assert result is not None
        assert "different lists of workers" in result


def test_several_problems_are_listed_below_each_other() -> None:
    workers = addresses(2)
    results = all_of(
        lambda: outcome(workers, 0, {"a": 1, "b": 1}),
        lambda: outcome(workers, 1, {"a": 2, "b": 2}),
        within=5,
    )
    expected = (
        "The workers cannot start together: \n- the workers differ in a: 1 on worker 0; 2 on "
        "worker 1\n- the workers differ in b: 1 on worker 0; 2 on worker 1"
    )
    assert results == [expected, expected]


@pytest.mark.parametrize(
    "nonsense",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"{}\n",
        b"[" * 100_000 + b"\n",
        b"x" * 1_000_000,
        b'{"protocol": "tfdp-rendezvous-1", "index": 9, "nonce": "a", "workers": ["a:1"], '
        b'"facts": {}}\n',
        b"",
    ],
)
def test_strangers_at_the_port_do_no_harm(nonsense: bytes) -> None:
    workers = addresses(2)

    def stranger_then_worker() -> str | None:
        time.sleep(0.3)
        address = ("127.0.0.1", int(workers[0].rpartition(":")[2]))
        for _ in range(3):
            with socket.create_connection(address) as sock, contextlib.suppress(OSError):
                sock.sendall(nonsense)  # it may hang up before everything is sent
        return outcome(workers, 1)

    assert all_of(lambda: outcome(workers, 0), stranger_then_worker, within=5) == [None, None]


def test_another_program_at_the_address_of_a_worker() -> None:
    workers = addresses(2)
    with socket.create_server(("127.0.0.1", int(workers[1].rpartition(":")[2]))) as server:
        server.settimeout(SHORT)

        def chatter() -> None:
            try:
                while True:
                    with server.accept()[0] as connection:
                        connection.recv(10)
                        connection.sendall(b"220 mail\r\n")
            except OSError:
                return

        thread = threading.Thread(target=chatter)
        thread.start()
        result = outcome(workers, 0, timeout=SHORT)
        thread.join()
    assert result is not None
    assert f"worker 1 ({workers[1]}) did not come within 1.5 s (another program answers" in result


def test_a_text_from_a_stranger_cannot_steer_the_terminal() -> None:
    workers = addresses(2)

    def evil() -> None:
        hello = {
            "protocol": "tfdp-rendezvous-1",
            "index": 1,
            "nonce": "n",
            "workers": list(workers),
            "facts": {},
        }
        verdict = {"protocol": "tfdp-rendezvous-1", "problems": ["\x1b[2J" + "x" * 9999]}
        for _ in range(50):
            try:
                sock = socket.create_connection(
                    ("127.0.0.1", int(workers[0].rpartition(":")[2])), timeout=5
                )
            except OSError:
                time.sleep(0.05)
                continue
            with sock:
                sock.sendall((json.dumps(hello) + "\n" + json.dumps(verdict) + "\n").encode())
                while sock.recv(1000):
                    pass
                return

    thread = threading.Thread(target=evil)
    thread.start()
    result = outcome(workers, 0, timeout=SHORT)
    thread.join()
    assert result is not None
    assert "?[2Jxxx" in result
    assert "\x1b" not in result
    assert len(result) < 2000


def test_inside_a_running_event_loop_as_in_a_notebook() -> None:
    workers = addresses(2)

    async def cell() -> str | None:
        return outcome(workers, 0)

    results = all_of(lambda: asyncio.run(cell()), lambda: outcome(workers, 1), within=5)
    assert results == [None, None]


ONE_WORKER = """
import sys
from tfdp.cluster import ClusterInfo
from tfdp.cluster.rendezvous import meet
meet(ClusterInfo(tuple(sys.argv[2:]), int(sys.argv[1]), "worker"), {}, 30)
"""


def worker_process(repository: Path, index: int, workers: tuple[str, ...]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", ONE_WORKER, str(index), *workers],
        cwd=repository,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.multi_process
def test_a_worker_that_was_killed_while_it_waited_may_come_again(repository: Path) -> None:
    workers = addresses(3)
    victim = worker_process(repository, 1, workers)
    others = [worker_process(repository, 0, workers)]
    time.sleep(1)  # they have met by now, and wait for worker 2
    victim.kill()
    victim.communicate(timeout=10)
    others += [worker_process(repository, index, workers) for index in (1, 2)]
    for process in others:
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 0, errors


@pytest.mark.multi_process
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_waiting_can_be_interrupted(repository: Path, name: str) -> None:
    process = worker_process(repository, 0, addresses(2))
    time.sleep(1)
    start = time.monotonic()
    os.kill(process.pid, signal.Signals[name])
    process.communicate(timeout=10)
    assert time.monotonic() - start < 2
    assert process.returncode == -signal.Signals[name]
