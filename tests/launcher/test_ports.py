from __future__ import annotations

import socket

import pytest

from tfdp.errors import ClusterError
from tfdp.launcher import ports
from tfdp.launcher.ports import free_ports


def test_ports_are_different_and_free() -> None:
    found = free_ports(20)
    assert len(set(found)) == 20
    for port in found:
        socket.create_server(("127.0.0.1", port)).close()


def test_ports_are_not_those_of_outgoing_connections() -> None:
    first = ports._first_ephemeral()
    assert all(port < first for port in free_ports(50))


def test_a_port_in_use_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(ports, "_LOWEST", port)
    monkeypatch.setattr(ports, "_first_ephemeral", lambda: port + 1)
    assert free_ports(1) == [port]
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(ClusterError, match=r"1 free ports are needed .* only 0 were found"),
    ):
        free_ports(1)
