"""``host:port`` addresses of workers."""

from __future__ import annotations

import re
from typing import Final

MAX_PORT: Final = 65535

_HOST = re.compile(r"\[[\w:.%]+\]|[\w.-]+", re.ASCII)
_LOOPBACK = ("localhost", "127.0.0.1")


def problem_with_address(address: str) -> str | None:
    """What is wrong with `address` as ``host:port``, or None. The host is not looked up."""
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        return "the port is missing, as in host:2222"
    if not re.fullmatch("[0-9]+", port):
        return f'the port must be a number, got "{port}"'
    if len(port) > 5 or not 1 <= int(port) <= MAX_PORT:
        return f"the port must be from 1 to {MAX_PORT}, got {port}"
    if not _HOST.fullmatch(host):
        return f'"{host}" is no host name or address (IPv6 addresses stand in brackets)'
    return None


def host_of(address: str) -> str:
    """The host of a valid address; both names of the loopback interface give the same."""
    host = address.rpartition(":")[0].lower()
    return _LOOPBACK[0] if host in _LOOPBACK else host


def same_address(first: str, second: str) -> bool:
    """Whether two valid addresses are one, as far as their text tells."""
    ports = [int(address.rpartition(":")[2]) for address in (first, second)]
    return ports[0] == ports[1] and host_of(first) == host_of(second)
