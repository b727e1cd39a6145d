"""All-reduces between two "hosts" on a slow link: time, and bytes counted at the link."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tfdp.bench.candidates import Candidate
from tfdp.bench.chaos.network import TwoHosts
from tfdp.bench.peers.contestant import Contestant, Program, slowest
from tfdp.bench.peers.contestants import Host, check_peer_python, tensorflow, torch
from tfdp.bench.slow_link import DEVICE, limit, sent_bytes
from tfdp.collectives import Topology
from tfdp.collectives.compression import check_compression
from tfdp.collectives.registry import get
from tfdp.errors import StrategyError

GLOO: Final = "PyTorch, Gloo"


@dataclass(frozen=True)
class HostsOptions:
    """What to measure.

    Attributes:
      reducers: as `Candidate.parse` takes them; the first is what the others are compared with.
      workers_per_host: processes on each of the two.
      devices: replicas of each process.
      size: bytes of a replica's buffer.
      tensors: how many equal ones of tfdp make up the buffer, as gradients do.
      rate: of the link in each direction, as `tc` writes it.
      rounds: turns of each.
      repetitions: sums in a turn.
      peer_python: an interpreter that has PyTorch, for Gloo on the same link; None: without.
    """

    reducers: tuple[str, ...] = ("ring", "two_level", "two_level+bf16")
    workers_per_host: int = 1
    devices: int = 2
    size: int = 16 * 1024**2
    tensors: int = 1
    rate: str = "1gbit"
    rounds: int = 7
    repetitions: int = 2
    peer_python: str | None = None

    @property
    def replicas(self) -> int:
        """On both hosts."""
        return 2 * self.workers_per_host * self.devices


@dataclass(frozen=True)
class OnLink:
    """One contestant.

    Attributes:
      name: its name.
      seconds: of a sum, the median of each turn, of the slowest process.
      sent: bytes that each end sent for one sum, over the buffer's bytes; of each turn.
      expected: what the formula says; None where there is none.
    """

    name: str
    expected: float | None
    seconds: list[float] = field(default_factory=list)
    sent: list[tuple[float, float]] = field(default_factory=list)


def measure_hosts(
    options: HostsOptions, say: Callable[[str], None]
) -> tuple[list[OnLink], dict[str, str]]:
    """Times all contestants, in turn; also what was left out and why.

    Raises:
      RunError: network namespaces cannot be had (they take root), or `tc` refuses.
      StrategyError: a reducer is unknown or cannot serve two hosts.
      WorkerError: a process failed, or took too long.
    """
    for text in options.reducers:
        _check(Candidate.parse(text), options)
    absent = {}
    if options.peer_python is None:
        absent[GLOO] = "no --peer-python PATH of a Python that has torch"
    else:
        say(f"PyTorch {check_peer_python(options.peer_python)}")
    with TwoHosts() as hosts, contextlib.ExitStack() as stack:
        limit(hosts, options.rate)
        places = [Host(address, hosts.command(i)) for i, address in enumerate(hosts.addresses)]
        found = [OnLink(text, formula(text, options)) for text in options.reducers]
        programs = [_program(text, options, places) for text in options.reducers]
        if options.peer_python is not None:
            found.append(OnLink(GLOO, flat_ring(options.replicas)))
            made = torch(options.peer_python, {}, options.replicas, places, DEVICE)
            programs.append(Program(GLOO, made.ranks, made.commands, made.environs))
        started = []
        for program in programs:
            say(f"starting {program.name}")
            started.append(stack.enter_context(Contestant(program)))
            started[-1].wait_until_ready()
            started[-1].turn(what="allreduce", size=options.size, count=1)  # its warm-up
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}")
            for own, contestant in list(zip(found, started, strict=True))[:: 1 - number % 2 * 2]:
                _take(own, contestant, hosts, options, warm=contestant.name == GLOO)
    return found, absent


def _take(
    own: OnLink, contestant: Contestant, hosts: TwoHosts, options: HostsOptions, warm: bool
) -> None:
    before = sent_bytes(hosts)
    turn = contestant.turn(what="allreduce", size=options.size, count=options.repetitions)
    after = sent_bytes(hosts)
    own.seconds.append(statistics.median(slowest(turn)))
    sums = options.repetitions + (2 if warm else 0)  # PyTorch's turns warm up each time
    first, second = ((b - a) / sums / options.size for a, b in zip(before, after, strict=True))
    own.sent.append((first, second))


def flat_ring(replicas: int) -> float:
    """Bytes on the link in each direction over those of a buffer: 2 (n - 1) / n, hosts in order."""
    return 2 * (replicas - 1) / replicas


def formula(text: str, options: HostsOptions) -> float | None:
    """The same for a reducer of tfdp; None for one that is not known here."""
    candidate = Candidate.parse(text)
    shorter = 0.5 if candidate.compression in ("bf16", "fp16") else 1.0
    if candidate.reducer == "ring":
        return flat_ring(options.replicas)
    if candidate.reducer == "two_level":
        return flat_ring(2 if options.workers_per_host == 1 else 2 * options.workers_per_host) * (
            shorter
        )
    return None


def _check(candidate: Candidate, options: HostsOptions) -> None:
    shape = Topology(2 * options.workers_per_host, options.devices, "CPU")
    reducer = get(candidate.reducer)
    reason = reducer.refusal(shape)
    if candidate.reducer == "mpi":
        reason = "this benchmark starts its workers without mpiexec"
    if reason is not None:
        raise StrategyError(f"{candidate} cannot be measured between two hosts: {reason}.")
    if candidate.compression in ("topk", "powersgd"):
        raise StrategyError(f"{candidate} keeps state of a training, and here nothing is trained.")
    check_compression(candidate.compression, reducer, shape)


def _program(text: str, options: HostsOptions, places: list[Host]) -> Program:
    candidate = Candidate.parse(text)
    job = {
        "library": "tfdp",
        "devices": options.devices,
        "reducer": candidate.reducer,
        "compression": candidate.compression,
        "tensors": options.tensors,
    }
    return tensorflow(text, job, 2 * options.workers_per_host, places)
