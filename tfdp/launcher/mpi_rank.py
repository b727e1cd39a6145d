"""A rank of MPI that hands its place over to a worker of the launcher.

Run by mpiexec as ``python -I -S mpi_rank.py FOLDER``; imports nothing of tfdp. The first that
connects to the socket ``FOLDER/RANK`` gets what mpiexec has told this process: variables, and the
connection to mpiexec that one of them names. This process ends with the worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from pathlib import Path

_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")
_PREFIXES = ("PMI", "OMPI_", "PRTE_", "MPI_", "MPIR_", "HYDRA_", "HYDI_", "I_MPI_")
_CONNECTION = "PMI_FD"
_LOOK_SECONDS = 1.0


def main(folder: str) -> None:
    """Returns when the worker has ended, or mpiexec has."""
    parent = os.getppid()
    rank = next(os.environ[name] for name in _RANKS if name in os.environ)
    told = {name: text for name, text in os.environ.items() if name.startswith(_PREFIXES)}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.settimeout(_LOOK_SECONDS)
        # Renamed when it listens: who finds the name can connect.
        waiting = Path(folder, f"{rank}.new")
        server.bind(str(waiting))
        server.listen(1)
        waiting.rename(Path(folder, rank))
        worker = None
        while worker is None and os.getppid() == parent:
            with contextlib.suppress(TimeoutError):
                worker, _ = server.accept()
    if worker is None:
        return
    connection = [int(told[_CONNECTION])] if _CONNECTION in told else []
    socket.send_fds(worker, [json.dumps(told).encode() + b"\n"], connection)
    for each in connection:
        os.close(each)  # mpiexec has to notice the end of the worker
    worker.settimeout(_LOOK_SECONDS)
    while os.getppid() == parent:
        with contextlib.suppress(TimeoutError):
            if not worker.recv(1):
                return


if __name__ == "__main__":
    with contextlib.suppress(ConnectionError):
        main(sys.argv[1])
