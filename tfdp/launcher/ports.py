"""Free ports on the loopback interface."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

from tfdp.errors import ClusterError

_LOWEST = 12000
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_TRIES = 2000


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on at the moment.

    They lie below the range from which the kernel serves outgoing connections, so that none of
    those takes one before the worker does.

    Raises:
      ClusterError: there are not enough.
    """
    ports = range(_LOWEST, _first_ephemeral())
    chosen: list[int] = []
    with contextlib.ExitStack() as held:
        for port in random.sample(ports, min(_TRIES, len(ports))):
            if len(chosen) == count:
                break
            with contextlib.suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
                chosen.append(port)
    if len(chosen) < count:
        raise ClusterError(
            f"{count} free ports are needed for as many workers, and only {len(chosen)} were found "
            f"between {ports.start} and {ports.stop - 1}"
        )
    return chosen


def _first_ephemeral() -> int:
    try:
        first = int(_RANGE_FILE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = 32768
    return first if first > _LOWEST + _TRIES else 65536
