"""Names, listeners and connections, each bounded in time and closed by its user."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading
from typing import Any

from tfdp.cluster.rendezvous.messages import MAX_BYTES

CONNECT_SECONDS = 3.0
"""How long one attempt to connect may take; a host that drops packets gives no answer."""

_Address = tuple[Any, ...]
_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class NameProblemError(OSError):
    """The name of a host does not resolve."""


class SelfConnectionError(OSError):
    """TCP has joined a socket with itself, which it may where nobody listens."""


def split(address: str) -> tuple[str, int]:
    """Host (IPv6 without its brackets) and port of a valid address."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether a host, by its text alone, is this machine's loopback interface."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def listener(workers: tuple[str, ...], index: int) -> socket.socket:
    """A listening socket at the port of one worker.

    Only the loopback interface is opened, unless the cluster names another host.

    Raises:
      OSError: the port is in use, or may not be used.
    """
    host, port = split(workers[index])
    if not all(is_loopback(split(worker)[0]) for worker in workers):
        dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        return socket.create_server(("", port), family=family, dualstack_ipv6=dual, backlog=1024)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    where = "127.0.0.1" if host.lower() == "localhost" else host
    return socket.create_server((where, port), family=family, backlog=1024)


async def connect(address: str) -> _Stream:
    """A connection to a worker.

    Raises:
      NameProblemError: its host's name does not resolve.
      OSError: nobody answers there, TimeoutError included.
    """
    host, port = split(address)
    problem: OSError = ConnectionRefusedError(f"no address for {host}")
    for family, kind, protocol, _, sockaddr in await _resolve(host, port):
        try:
            return await _connect(socket.socket(family, kind, protocol), sockaddr)
        except OSError as error:
            problem = error
    raise problem


async def _connect(sock: socket.socket, sockaddr: _Address) -> _Stream:
    try:
        sock.setblocking(False)
        async with asyncio.timeout(CONNECT_SECONDS):
            await asyncio.get_running_loop().sock_connect(sock, sockaddr)
        if sock.getsockname() == sock.getpeername():
            raise SelfConnectionError("nobody listens there")
        return await asyncio.open_connection(sock=sock, limit=MAX_BYTES)
    except BaseException:
        sock.close()
        raise


async def _resolve(host: str, port: int) -> list[tuple[Any, Any, int, str, _Address]]:
    """`socket.getaddrinfo` in a thread that may be left behind: it cannot be interrupted."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, problem: Exception | None) -> None:
        if future.done():
            return
        if problem is None:
            future.set_result(result)
        else:
            future.set_exception(problem)

    def look_up() -> None:
        result, problem = None, None
        try:
            result = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            problem = NameProblemError(getattr(error, "strerror", None) or str(error))
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(settle, result, problem)

    threading.Thread(target=look_up, name=f"resolve {host}", daemon=True).start()
    return list(await future)
