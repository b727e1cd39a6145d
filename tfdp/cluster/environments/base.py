"""The interface of all environments, and how they agree on ports."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final
from zlib import crc32

from tfdp.cluster.address import MAX_PORT
from tfdp.cluster.tf_config import ClusterInfo
from tfdp.errors import ClusterError

PORT_VARIABLE: Final = "TFDP_PORT"

_PORTS = range(12000, 32000)
"""Below the ports that Linux gives to outgoing connections, which start at 32768."""

_SPACING = 16
"""Jobs are spread so that this many workers of each on one host have ports of their own."""


class Environment(ABC):
    """One way in which a process can be told of its group."""

    name: ClassVar[str]
    """As shown to users."""

    @abstractmethod
    def is_present(self, environ: Mapping[str, str]) -> bool:
        """Whether this process was started this way, as one of a group."""

    @abstractmethod
    def read(self, environ: Mapping[str, str]) -> ClusterInfo:
        """The group; ask `is_present` first.

        Raises:
          ClusterError: what `environ` says is incomplete or contradicts itself.
        """


def integer(environ: Mapping[str, str], name: str, *, least: int = 0) -> int:
    """The integer in an environment variable.

    Raises:
      ClusterError: it is not set, no integer, or below `least`.
    """
    text = environ.get(name, "").strip()
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) < least:
        shown = f'got "{text[:40]}"' if text else "it is not set"
        raise ClusterError(f"{name} must be an integer of at least {least}, but {shown}")
    return int(text)


def rank_and_size(environ: Mapping[str, str], rank_name: str, size_name: str) -> tuple[int, int]:
    """This process's rank and the number of ranks.

    Raises:
      ClusterError: one is missing or malformed, or the rank is not below the size.
    """
    size = integer(environ, size_name, least=1)
    rank = integer(environ, rank_name)
    if rank >= size:
        raise ClusterError(
            f"{rank_name} is {rank}, but {size_name} is {size}: ranks go from 0 to {size - 1}"
        )
    return rank, size


def base_port(environ: Mapping[str, str], job: str) -> int:
    """The port of the first worker on each host: ``TFDP_PORT``, or one that follows from `job`.

    Every worker must come to the same port without asking another, so it depends on nothing else.

    Args:
      environ: the process's environment.
      job: names the job, the same in all its workers and preferably in no other job.

    Raises:
      ClusterError: ``TFDP_PORT`` is no port.
    """
    if environ.get(PORT_VARIABLE, "").strip():
        port = integer(environ, PORT_VARIABLE, least=1)
        if port > MAX_PORT:
            raise ClusterError(f"{PORT_VARIABLE} must be at most {MAX_PORT}, got {port}")
        return port
    return _PORTS.start + crc32(job.encode()) % (len(_PORTS) // _SPACING) * _SPACING


def addresses(hosts: Sequence[str], first_port: int) -> tuple[str, ...]:
    """``host:port`` for each rank; ranks on one host have one port after the other.

    Raises:
      ClusterError: there are more workers on a host than ports.
    """
    seen: dict[str, int] = {}
    result = []
    for host in hosts:
        port = first_port + seen.get(host, 0)
        if port > MAX_PORT:
            raise ClusterError(
                f"{host} has {seen[host] + 1} workers, too many for the ports from {first_port} on",
                hint=f"Set a smaller {PORT_VARIABLE}.",
            )
        seen[host] = seen.get(host, 0) + 1
        result.append(f"{host}:{port}")
    return tuple(result)
