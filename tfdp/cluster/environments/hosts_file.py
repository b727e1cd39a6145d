"""A hosts file: the workers one by one, for machines that no scheduler manages.

One line is a host, ``host:port``, or ``host slots=N`` for N workers; ``#`` starts a comment.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from tfdp.cluster.address import host_of, problem_with_address
from tfdp.cluster.environments.base import Environment, addresses, base_port, integer
from tfdp.cluster.tf_config import ClusterInfo
from tfdp.errors import ClusterError

VARIABLE: Final = "TFDP_HOSTS_FILE"
INDEX_VARIABLE: Final = "TFDP_WORKER_INDEX"

_LINE = re.compile(r"(?P<address>\S+)(?:\s+slots\s*=\s*(?P<slots>[0-9]{1,6}))?")


@dataclass(frozen=True)
class HostEntry:
    """One worker of a hosts file; `port` is None where the file leaves it open."""

    host: str
    port: int | None


def read_hosts_file(path: str | Path) -> list[HostEntry]:
    """The workers of a hosts file, in its order.

    Raises:
      ClusterError: it cannot be read, names no host, or a line is malformed.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ClusterError(f"the hosts file {path} cannot be read: {reason}") from None
    entries: list[HostEntry] = []
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.partition("#")[0].strip()
        if content:
            entries += _entries(content, f"{path}:{number}")
    if not entries:
        raise ClusterError(f"the hosts file {path} names no host")
    return entries


def _entries(content: str, place: str) -> list[HostEntry]:
    match = _LINE.fullmatch(content)
    if match is None:
        raise ClusterError(
            f'{place}: must be host, host:port or host slots=N, got "{content[:80]}"'
        )
    address, slots = match["address"], int(match["slots"] or 1)
    has_port = ":" in address and not address.endswith("]")
    problem = problem_with_address(address if has_port else f"{address}:1")
    if problem is None and slots < 1:
        problem = "slots must be at least 1"
    if problem is None and has_port and slots > 1:
        problem = f"{slots} workers cannot have one port; leave the port out"
    if problem is not None:
        raise ClusterError(f"{place}: {problem}")
    host, _, port = address.rpartition(":") if has_port else (address, "", "")
    return [HostEntry(host, int(port) if port else None)] * slots


def addresses_of(entries: Sequence[HostEntry], first_port: int) -> tuple[str, ...]:
    """``host:port`` of each worker; those without a port get one after the other on each host.

    Raises:
      ClusterError: two workers have one address.
    """
    free = iter(addresses([entry.host for entry in entries if entry.port is None], first_port))
    result = tuple(
        next(free) if entry.port is None else f"{entry.host}:{entry.port}" for entry in entries
    )
    for number, address in enumerate(result):
        if address in result[:number]:
            raise ClusterError(f"the hosts file names {address} twice; each worker needs its own")
    return result


def local_names() -> set[str]:
    """Names and addresses by which this machine may be called; some may be missing."""
    name = socket.gethostname().lower()
    names = {"localhost", name, name.partition(".")[0], socket.getfqdn().lower()}
    for candidate in tuple(names):
        try:
            found = socket.getaddrinfo(candidate, None)
        except (OSError, UnicodeError):
            continue
        names |= {str(item[4][0]) for item in found}
    return names


def local_indexes(workers: Sequence[str], names: set[str]) -> list[int]:
    """Which workers are on the machine with these names."""
    return [i for i, worker in enumerate(workers) if host_of(worker).strip("[]") in names]


class HostsFileEnvironment(Environment):
    """``TFDP_HOSTS_FILE`` names a hosts file, and ``TFDP_WORKER_INDEX`` this process.

    Without the index, the one line with this machine's name is taken.

    Args:
      names: gives the names of this machine.
    """

    name: ClassVar[str] = "hosts file"

    def __init__(self, names: Callable[[], set[str]] = local_names) -> None:
        self._names = names

    def is_present(self, environ: Mapping[str, str]) -> bool:
        mpi = "OMPI_COMM_WORLD_RANK" in environ or "PMI_RANK" in environ
        return bool(environ.get(VARIABLE, "").strip()) and not mpi

    def read(self, environ: Mapping[str, str]) -> ClusterInfo:
        path = environ[VARIABLE]
        workers = addresses_of(read_hosts_file(path), base_port(environ, "hosts file"))
        return ClusterInfo(workers, self._index(environ, path, workers), "worker")

    def _index(self, environ: Mapping[str, str], path: str, workers: Sequence[str]) -> int:
        if environ.get(INDEX_VARIABLE, "").strip():
            index = integer(environ, INDEX_VARIABLE)
            if index >= len(workers):
                raise ClusterError(
                    f"{INDEX_VARIABLE} is {index}, but {path} names {len(workers)} workers: "
                    f"0 to {len(workers) - 1}"
                )
            return index
        names = self._names()
        here = local_indexes(workers, names)
        if len(here) != 1:
            raise ClusterError(
                f"{path} names {len(here)} workers on this machine ({', '.join(sorted(names))}), "
                "so it is not clear which one this process is",
                hint=f"Set {INDEX_VARIABLE}, or start the workers with tfdp launch --hosts {path}.",
            )
        return here[0]
