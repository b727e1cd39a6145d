"""How the speed of training grows with the replicas, and what a step's time goes into."""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tfdp.bench.peers.contestant import Contestant, slowest
from tfdp.bench.peers.contestants import tensorflow
from tfdp.bench.spread import Spread
from tfdp.cluster.runtime import usable_cores
from tfdp.errors import StrategyError

PARTS: Final = ("steps", "compute", "input")
KINDS: Final = ("weak", "strong")


@dataclass(frozen=True)
class ScalingOptions:
    """What to measure.

    Attributes:
      model: one of `tfdp.bench.peers.names.NAMES`.
      counts: numbers of replicas, ascending; the first is what the others are compared with.
      processes: whether each replica is a worker process, or a device of one process.
      kinds: "weak", a batch of `batch` for each replica; "strong", a global batch of `batch`.
      batch: rows, see above.
      reducer: for two replicas or more; "auto" as in `tfdp.strategy`.
      cores: for each worker, which is then confined to its own; None: all share all.
      rounds: turns that each has.
      steps: in each turn.
    """

    model: str = "resnet_small"
    counts: tuple[int, ...] = (1, 2)
    processes: bool = False
    kinds: tuple[str, ...] = KINDS
    batch: int = 32
    reducer: str = "auto"
    cores: int | None = None
    rounds: int = 7
    steps: int = 5

    def __post_init__(self) -> None:
        if self.cores is None:
            return
        there = usable_cores()
        if not hasattr(os, "sched_setaffinity"):
            raise StrategyError("--cores-per-worker cannot be had on this operating system.")
        if not self.processes:
            raise StrategyError(
                "--cores-per-worker confines processes, and the replicas are devices of one.",
                hint="Use --workers instead of --devices.",
            )
        if max(self.counts) * self.cores > there:
            raise StrategyError(
                f"{max(self.counts)} workers with {self.cores} cores each do not fit: this "
                f"process may use {there}.",
                hint="Ask for fewer workers, or leave --cores-per-worker out.",
            )


@dataclass(frozen=True)
class Point:
    """One number of replicas.

    Attributes:
      kind: "weak" or "strong".
      replicas: how many.
      global_batch: rows of a step, all replicas together.
      seconds: of a step as it is, of one whose gradients are not summed, and of a batch of input,
        by `PARTS`; one value a round, the median of its steps, of the slowest worker.
    """

    kind: str
    replicas: int
    global_batch: int
    seconds: dict[str, list[float]] = field(default_factory=lambda: {part: [] for part in PARTS})

    @property
    def samples_per_second(self) -> Spread:
        """Of each round."""
        return Spread(tuple(self.global_batch / each for each in self.seconds["steps"]))

    @property
    def input(self) -> Spread:
        """Seconds to draw a batch, where nothing else runs."""
        return Spread(tuple(self.seconds["input"]))

    @property
    def compute(self) -> Spread:
        """Seconds of a step without communication and without what its input takes alone."""
        pairs = zip(self.seconds["compute"], self.seconds["input"], strict=True)
        return Spread(tuple(step - drawn for step, drawn in pairs))

    @property
    def communication(self) -> Spread:
        """Seconds by which summing the gradients makes a step longer."""
        pairs = zip(self.seconds["steps"], self.seconds["compute"], strict=True)
        return Spread(tuple(step - own for step, own in pairs))


def measure_scaling(options: ScalingOptions, say: Callable[[str], None]) -> list[Point]:
    """Starts a group of replicas for each number, and gives them turns.

    All groups stay alive, and only one of them works: a machine that becomes slower does so for
    all of them alike.

    Raises:
      StrategyError: the replicas or the reducer cannot be had.
      WorkerError: a process failed, or took too long.
    """
    points = [
        Point(kind, count, options.batch * (count if kind == "weak" else 1))
        for kind in options.kinds
        for count in options.counts
    ]
    for point in points:
        if point.global_batch < point.replicas:
            raise StrategyError(
                f"a global batch of {point.global_batch} leaves some of {point.replicas} replicas "
                "without rows.",
                hint="Use a larger --batch.",
            )
    with contextlib.ExitStack() as stack:
        groups: dict[tuple[int, int], Contestant] = {}
        for point in points:
            key = point.replicas, point.global_batch
            if key not in groups:
                say(f"starting {point.replicas} replicas, global batch {point.global_batch}")
                groups[key] = stack.enter_context(_group(options, point))
                groups[key].wait_until_ready()
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}")
            taken = {key: _turns(group, options.steps) for key, group in groups.items()}
            for point in points:
                for part, seconds in taken[point.replicas, point.global_batch].items():
                    point.seconds[part].append(seconds)
    return points


def _group(options: ScalingOptions, point: Point) -> Contestant:
    workers = point.replicas if options.processes else 1
    job: dict[str, Any] = {
        "library": "tfdp",
        "model": options.model,
        "global_batch": point.global_batch,
        "devices": 1 if options.processes else point.replicas,
        "reducer": options.reducer if point.replicas > 1 else "auto",
    }
    if options.cores is not None:
        usable = sorted(os.sched_getaffinity(0))
        each = options.cores
        job["cores"] = [usable[rank * each : (rank + 1) * each] for rank in range(workers)]
    return Contestant(tensorflow(f"{point.replicas} replicas", job, workers))


def _turns(group: Contestant, steps: int) -> dict[str, float]:
    found = {part: slowest(group.turn(what=part, count=steps)) for part in PARTS}
    return {part: statistics.median(seconds) for part, seconds in found.items()}


def efficiencies(points: Sequence[Point]) -> list[Spread]:
    """Samples a second over those of the first number of replicas, for each replica; by point.

    1 is perfect scaling. Of each round, so that both were measured in turn.
    """
    found = []
    for point in points:
        first = next(each for each in points if each.kind == point.kind)
        times = point.replicas / first.replicas
        pairs = zip(point.samples_per_second.values, first.samples_per_second.values, strict=True)
        found.append(Spread(tuple(own / base / times for own, base in pairs)))
    return found
