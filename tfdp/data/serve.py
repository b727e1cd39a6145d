"""A tf.data service: a dispatcher, and workers that read, decode and transform for training.

TensorFlow's servers listen on all interfaces of the machine and ask nobody who they are.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfdp.data.service import unreachable
from tfdp.errors import ClusterError

_SERVICE = tf.data.experimental.service
_HEARTBEAT_MS = 1000
_FORGOTTEN_MS = 10_000
"""After so long without a heartbeat the dispatcher gives a worker's share to the others."""


@dataclass(frozen=True)
class ServeOptions:
    """What to start.

    Attributes:
      workers: how many; each works in several threads, so that one on each machine is enough.
      dispatcher: ``grpc://host:port`` of one that runs elsewhere; None: one is started here.
      host: the name by which others reach this machine.
      port: of the dispatcher; 0: any that is free.
    """

    workers: int = 1
    dispatcher: str | None = None
    host: str = "localhost"
    port: int = 0


class DataServers:
    """The servers, from `start` until `stop`.

    Args:
      options: see there.
    """

    def __init__(self, options: ServeOptions) -> None:
        self._options = options
        self._servers: list[Any] = []

    def start(self) -> str:
        """Starts them; returns ``grpc://host:port`` of the dispatcher.

        Raises:
          ClusterError: the port is in use, or nobody answers at the dispatcher's address.
        """
        options = self._options
        address = options.dispatcher
        if address is None:
            _check_free(options.port)
            config = _SERVICE.DispatcherConfig(port=options.port, worker_timeout_ms=_FORGOTTEN_MS)
            dispatcher = _SERVICE.DispatchServer(config)
            self._servers.append(dispatcher)
            address = f"grpc://{options.host}:{dispatcher.target.rpartition(':')[2]}"
        else:
            error = unreachable(address)
            if error is not None:
                raise ClusterError(
                    f"nobody answers at {address}: {error}.", hint="Start the dispatcher first."
                ) from error
        for _ in range(options.workers):
            config = _SERVICE.WorkerConfig(
                dispatcher_address=address.removeprefix("grpc://"),
                worker_address=f"{options.host}:%port%",
                heartbeat_interval_ms=_HEARTBEAT_MS,
            )
            self._servers.append(_SERVICE.WorkerServer(config))
        return address

    def stop(self) -> None:
        """Ends them, the workers first."""
        while self._servers:
            self._servers.pop()._stop()


def serve(options: ServeOptions, say: Callable[[str], None]) -> None:
    """Starts the servers, and waits for SIGTERM or SIGINT.

    Args:
      options: see there.
      say: told the address of the dispatcher.

    Raises:
      ClusterError: see `DataServers.start`.
    """
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    servers = DataServers(options)
    try:
        say(servers.start())
        told.wait()
    finally:
        servers.stop()


def _check_free(port: int) -> None:
    """TensorFlow's servers share a port with another one without a word."""
    try:
        socket.create_server(("", port)).close()
    except OSError as error:
        raise ClusterError(
            f"port {port} cannot be used: {error.strerror or error}.",
            hint="Name another one (--port), or 0 for any that is free.",
        ) from error
