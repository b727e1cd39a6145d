"""How a process under measurement talks to the one that measures: JSON lines over a Unix socket.

Standard library only, and no import of tfdp: a peer's own Python loads this file by its path. A
Unix socket is a file, so it also reaches into a network namespace, where loopback does not.
"""

from __future__ import annotations

import json
import socket
import time
import traceback
from collections.abc import Callable
from typing import Any

Turn = Callable[..., Any]
"""Takes what the line asks for, as keyword arguments, and gives what can be written as JSON."""


def serve(path: str, rank: int, prepare: Callable[[], Turn]) -> int:
    """Connects, prepares, and takes every turn that is asked for; returns an exit code.

    Args:
        path: of the socket on which the measuring process listens.
        rank: this process's number in its group.
        prepare: builds what is to be measured; what it raises is told.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(path)
        lines = connection.makefile("rw", encoding="utf-8")

        def tell(message: dict[str, Any]) -> None:
            lines.write(json.dumps(message) + "\n")
            lines.flush()

        tell({"rank": rank})
        try:
            take = prepare()
            tell({"ready": True})
            for line in lines:
                asked = json.loads(line)
                if asked is None:
                    break
                tell({"result": take(**asked)})
        except Exception as error:
            tell({"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()})
            return 1
    return 0


def seconds_of(function: Callable[[], Any], times: int) -> list[float]:
    """Seconds of each of so many calls."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        function()
        found.append(time.perf_counter() - begin)
    return found
