"""Bytes between two hosts: the formula, and the counting of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tfdp.bench.chaos.network import TwoHosts, why_no_hosts
from tfdp.bench.hosts import HostsOptions, OnLink, flat_ring, formula, measure_hosts
from tfdp.bench.hosts_report import HostsReport
from tfdp.bench.slow_link import limit, sent_bytes
from tfdp.errors import RunError, StrategyError

BYTES = 2_000_000
RATE_BITS = 100_000_000
BURST_BYTES = 512 * 1024


@pytest.mark.parametrize(
    ("reducer", "expected"),
    [("ring", 1.5), ("two_level", 1.0), ("two_level+bf16", 0.5), ("reduce_to_one", None)],
)
def test_formula_for_two_replicas_on_each_host(reducer: str, expected: float | None) -> None:
    assert formula(reducer, HostsOptions()) == expected


def test_a_flat_ring_sends_less_than_twice_the_buffer() -> None:
    assert [flat_ring(n) for n in (2, 4, 8)] == [1.0, 1.5, 1.75]


@pytest.mark.parametrize(
    ("reducer", "why"),
    [
        ("mpi", "without mpiexec"),
        ("hierarchical_copy", "one host only"),
        ("two_level+topk", "here nothing is trained"),
        ("tow_level", "Did you mean 'two_level'"),
        ("ring+bf16", "sums between the replicas"),
    ],
)
def test_refused_reducers(reducer: str, why: str) -> None:
    with pytest.raises(StrategyError, match=why):
        measure_hosts(HostsOptions(reducers=(reducer,)), lambda line: None)


def test_without_namespaces_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any) -> Any:
        raise RunError("network namespaces cannot be made: ip netns add: Operation not permitted")

    monkeypatch.setattr(TwoHosts, "__enter__", refuse)
    with pytest.raises(RunError, match="not permitted"):
        measure_hosts(HostsOptions(), lambda line: None)


def test_report() -> None:
    flat = OnLink("ring", 1.5, [3.0, 3.0], [(1.5, 1.5)] * 2)
    two = OnLink("two_level", 1.0, [2.0, 1.0], [(1.0, 1.0)] * 2)
    report = HostsReport(HostsOptions(), [flat, two], {"Gloo": "not there"})
    assert report._ratio(two).values == (1.5, 3.0)
    assert "not measured: Gloo: not there" in report.lines()


@pytest.mark.multi_process
def test_bytes_and_rate_of_the_link(tmp_path: Path) -> None:
    reason = why_no_hosts()
    if reason is not None:
        pytest.skip(reason)
    path = str(tmp_path / "ready")
    receive = (
        "import socket, sys; s = socket.create_server((sys.argv[1], 5000)); "
        "open(sys.argv[2], 'w').close(); c = s.accept()[0]; n = 0\n"
        "while b := c.recv(65536): n += len(b)\n"
        "print(n)"
    )
    send = (
        "import socket, sys; c = socket.create_connection((sys.argv[1], 5000)); "
        "c.sendall(bytes(int(sys.argv[2])))"
    )
    with TwoHosts() as hosts:
        limit(hosts, "100mbit")
        with subprocess.Popen(
            [*hosts.command(1), sys.executable, "-c", receive, hosts.addresses[1], path],
            stdout=subprocess.PIPE,
        ) as receiver:
            try:
                for _ in range(200):
                    if os.path.exists(path):
                        break
                    time.sleep(0.05)
                before, begin = sent_bytes(hosts), time.monotonic()
                command = [*hosts.command(0), sys.executable, "-c", send]
                subprocess.run([*command, hosts.addresses[1], str(BYTES)], timeout=60, check=True)
                output, _ = receiver.communicate(timeout=60)
                seconds, after = time.monotonic() - begin, sent_bytes(hosts)
            finally:
                receiver.kill()
    assert int(output) == BYTES
    assert BYTES <= after[0] - before[0] <= 1.07 * BYTES
    assert after[1] - before[1] < 0.1 * BYTES  # acknowledgements
    assert seconds >= 8 * (BYTES - BURST_BYTES) / RATE_BITS
