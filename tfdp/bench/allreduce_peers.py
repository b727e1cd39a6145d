"""All-reduces of tfdp beside those of stock TensorFlow and of PyTorch on Gloo, in turn."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Sequence
from typing import Final

from tfdp.bench.allreduce import AllReduceOptions
from tfdp.bench.bandwidth import Measurement
from tfdp.bench.candidates import Candidate, choose
from tfdp.bench.peers.contestant import Contestant, Program, slowest
from tfdp.bench.peers.contestants import check_peer_python, tensorflow, torch
from tfdp.bench.report import AllReduceReport, Ratio
from tfdp.bench.spread import ratios
from tfdp.errors import StrategyError
from tfdp.strategies.devices import local_devices, topology

STOCK: Final = "stock RING"
GLOO: Final = "Gloo"
_STATEFUL: Final = ("topk", "powersgd")


def measure_beside_peers(
    options: AllReduceOptions, peer_python: str | None, say: Callable[[str], None]
) -> AllReduceReport:
    """Times all sizes; every round gives one ratio of each reducer to each peer.

    Raises:
      StrategyError: a reducer or the peers' Python cannot be had, or there is one worker.
      WorkerError: a process failed, or took too long.
    """
    if options.workers == 1 or options.devices != 1:
        raise StrategyError(
            "peers are compared between workers with one replica each.",
            hint="Use --workers 2, and leave --devices out.",
        )
    shape = topology(local_devices(1), options.workers)
    candidates, refused = choose(options.reducers, shape)
    programs = [_program(each, options.workers) for each in candidates]
    programs.append(tensorflow(STOCK, {"library": "stock"}, options.workers))
    peers = [STOCK]
    if peer_python is not None:
        say(f"PyTorch {check_peer_python(peer_python)}")
        programs.append(_named(GLOO, torch(peer_python, {}, options.workers)))
        peers.append(GLOO)
    else:
        refused[GLOO] = "no --peer-python PATH of a Python that has torch"
    found: dict[tuple[str, int], list[list[float]]] = {}
    with contextlib.ExitStack() as stack:
        started = []
        for program in programs:
            say(f"starting {program.name}")
            started.append(stack.enter_context(Contestant(program)))
            started[-1].wait_until_ready()
        for size in options.sizes:
            say(f"{size} bytes")
            for number in range(options.rounds):
                for each in started if number % 2 == 0 else reversed(started):
                    turn = each.turn(what="allreduce", size=size, count=options.repetitions)
                    found.setdefault((each.name, size), []).append(slowest(turn))
    return _report(options, found, peers, refused, shape.replicas)


def _report(
    options: AllReduceOptions,
    found: dict[tuple[str, int], list[list[float]]],
    peers: Sequence[str],
    refused: dict[str, str],
    replicas: int,
) -> AllReduceReport:
    names = list(dict.fromkeys(name for name, _ in found))
    measurements = [
        Measurement(name, size, replicas, tuple(s for turn in found[name, size] for s in turn))
        for name in names
        for size in options.sizes
    ]
    medians = {key: [statistics.median(turn) for turn in turns] for key, turns in found.items()}
    compared = [
        Ratio(name, peer, size, ratios(medians[peer, size], medians[name, size]))
        for name in names
        if name not in peers
        for peer in peers
        for size in options.sizes
    ]
    return AllReduceReport(
        options.workers, options.devices, tuple(measurements), refused, tuple(compared)
    )


def _program(candidate: Candidate, workers: int) -> Program:
    if candidate.compression in _STATEFUL:
        raise StrategyError(
            f"{candidate} owes a part of what it sums, which a training keeps: an all-reduce by "
            "itself does not show it.",
            hint="Measure it with tfdp bench peers.",
        )
    job = {
        "library": "tfdp",
        "devices": 1,
        "reducer": candidate.reducer,
        "compression": candidate.compression,
    }
    return tensorflow(str(candidate), job, workers)


def _named(name: str, program: Program) -> Program:
    return Program(name, program.ranks, program.commands, program.environs)
