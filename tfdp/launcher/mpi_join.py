"""Becomes the worker's program, in the place of a rank of MPI.

Run as ``python -I -S mpi_join.py FOLDER RANK SECONDS EXIT_CODE PROGRAM ARGUMENT...``; imports
nothing of tfdp. Ends with EXIT_CODE where mpiexec has not started the rank within SECONDS.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path

_CONNECTION = "PMI_FD"
_LOOK_SECONDS = 0.05
_CANNOT_START = 127


def main(folder: str, rank: str, seconds: str, exit_code: str, *program: str) -> None:
    """Does not return: the process becomes the program, or exits."""
    try:
        told, connections, worker = _place_of(Path(folder, rank), float(seconds))
    except OSError as error:
        said = Path(folder, "log").read_text(encoding="utf-8", errors="replace").strip()
        text = f"mpiexec has not started rank {rank} ({error}). It said: {said or 'nothing'}"
        print(text, file=sys.stderr, flush=True)
        os._exit(int(exit_code))
    os.environ.update(told)
    for connection in connections:
        os.set_inheritable(connection, True)
        os.environ[_CONNECTION] = str(connection)
    os.set_inheritable(worker, True)  # stays open as long as the program runs
    try:
        os.execvp(program[0], program)
    except OSError as error:
        print(f"{program[0]} cannot be started: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(_CANNOT_START)


def _place_of(path: Path, seconds: float) -> tuple[dict[str, str], list[int], int]:
    """The variables and connections of the rank, and the socket that holds its place.

    Raises:
        OSError: nobody is there.
    """
    deadline = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s")
        time.sleep(_LOOK_SECONDS)
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(str(path))
    text, connections, _, _ = socket.recv_fds(client, 65536, 1)
    while not text.endswith(b"\n"):
        more = client.recv(65536)
        if not more:
            raise ConnectionError("it has ended")
        text += more
    return json.loads(text), connections, client.detach()


if __name__ == "__main__":
    main(*sys.argv[1:])
