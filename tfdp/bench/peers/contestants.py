"""How each contestant is started: tfdp, stock TensorFlow, bare Keras, PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tfdp.bench.candidates import mpiexec
from tfdp.bench.peers.contestant import Program
from tfdp.cluster.runtime import usable_cores
from tfdp.errors import StrategyError
from tfdp.launcher.ports import free_ports

_PACKAGES: Final = str(Path(__file__).resolve().parents[3])
# A rank finds tfdp where this process has found it, installed or not.
_BOOTSTRAP: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from tfdp.bench.peers.tf_program import main; sys.exit(main(sys.argv[2:]))"
)
_TORCH_PROGRAM: Final = str(Path(__file__).with_name("torch_program.py"))
_ASK_SECONDS: Final = 120.0


@dataclass(frozen=True)
class Host:
    """Where workers run.

    Attributes:
      address: by which the other workers reach them.
      prefix: what stands before a command that is to run there.
    """

    address: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()


LOCAL: Final = Host()


def tensorflow(
    name: str, job: dict[str, Any], workers: int, hosts: Sequence[Host] = (LOCAL,)
) -> Program:
    """Workers that run `tf_program`, shared out evenly between the hosts.

    Args:
      name: for tables.
      job: "library" ("tfdp", "stock" or "keras") and what its subject takes.
      workers: in all.
      hosts: they are filled one after the other.

    Raises:
      StrategyError: MPI is asked for and cannot be had.
    """
    per_host = workers // len(hosts)
    places = [hosts[rank // per_host] for rank in range(workers)]
    ports = free_ports(workers)
    addresses = [f"{p.address}:{port}" for p, port in zip(places, ports, strict=True)]
    job = {**job, "addresses": addresses if workers > 1 else []}
    base = (sys.executable, "-c", _BOOTSTRAP, _PACKAGES)
    if job.get("reducer") == "mpi":
        program = mpiexec()
        if program is None:
            raise StrategyError(
                "mpi cannot be measured: there is no mpiexec.",
                hint='pip install "tfdp[mpi]" brings one.',
            )
        text = json.dumps({**job, "mpi": True})
        if len(hosts) > 1:
            raise StrategyError("mpi cannot be started on several hosts by this benchmark.")
        command = (program, "-n", str(workers), *base, text, "{socket}")
        return Program(name, workers, (command,))
    commands = tuple(
        (*places[rank].prefix, *base, json.dumps({**job, "rank": rank}), "{socket}")
        for rank in range(workers)
    )
    return Program(name, workers, commands)


def torch(
    python: str,
    job: dict[str, Any],
    workers: int,
    hosts: Sequence[Host] = (LOCAL,),
    device: str | None = None,
) -> Program:
    """Workers that run PyTorch on Gloo, with the cores of this machine shared between them.

    Args:
      python: the interpreter that has torch.
      job: "model" and "global_batch", or nothing for all-reduces.
      workers: in all.
      hosts: as in `tensorflow`.
      device: network device that Gloo is to use; None: the one of this machine's name.
    """
    per_host = workers // len(hosts)
    (port,) = free_ports(1)
    shared = {
        **job,
        "workers": workers,
        "host": hosts[0].address,
        "port": port,
        "threads": max(1, usable_cores() // workers),
    }
    commands = tuple(
        (
            *hosts[rank // per_host].prefix,
            python,
            _TORCH_PROGRAM,
            json.dumps({**shared, "rank": rank}),
            "{socket}",
        )
        for rank in range(workers)
    )
    environ: dict[str, str | None] = {
        "OMP_NUM_THREADS": str(shared["threads"]),
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": None,
        "GLOO_SOCKET_IFNAME": device or "lo",
    }
    return Program("PyTorch DDP, Gloo", workers, commands, (environ,) * workers)


def check_peer_python(python: str) -> str:
    """The version of torch that this interpreter has.

    Raises:
      StrategyError: it does not run, or has no torch with Gloo.
    """
    code = (
        "import torch, torch.distributed as d; assert d.is_gloo_available(); "
        "print(torch.__version__)"
    )
    hint = "Make one: python3 -m venv peers && peers/bin/pip install torch numpy."
    try:
        done = subprocess.run(
            [python, "-c", code],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_ASK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StrategyError(f"--peer-python {python} does not run: {error}.", hint=hint) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise StrategyError(f"--peer-python {python} has no PyTorch with Gloo: {last}.", hint=hint)
    return done.stdout.strip()
