"""What overlaps in a training step: predicted from its parts, then measured."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tfdp.bench.peers.contestant import Contestant, slowest
from tfdp.bench.peers.contestants import tensorflow
from tfdp.bench.spread import Spread
from tfdp.bench.timeline_step import Step, predict_tail, read_step
from tfdp.errors import StrategyError

MANY: Final = "buckets"
ONE: Final = "one buffer"
SILENT: Final = "nothing sent"
_ONE_BUCKET_MB: Final = 2**20
_TRACED_STEPS: Final = 3


@dataclass(frozen=True)
class TimelineOptions:
    """What to look at.

    Attributes:
      model: one of `tfdp.bench.peers.names.NAMES`.
      workers: processes; 1 for the devices of one process.
      devices: replicas of each.
      reducer: "mpi" or "two_level" between workers, "ring" between devices.
      batch: rows of a step, all replicas together.
      bucket_mb: as in `tfdp.strategy`.
      rounds: pairs of turns.
      steps: in each turn.
    """

    model: str = "resnet_small"
    workers: int = 2
    devices: int = 1
    reducer: str = "two_level"
    batch: int = 64
    bucket_mb: float | str = "auto"
    rounds: int = 7
    steps: int = 3

    def __post_init__(self) -> None:
        known = ("ring",) if self.workers == 1 else ("mpi", "two_level")
        if self.reducer not in known:
            raise StrategyError(
                f"the times of {self.reducer!r} cannot be taken between "
                f"{'devices' if self.workers == 1 else 'workers'}: TensorFlow sums there.",
                hint=f"Use --reducer {' or '.join(known)}.",
            )
        if self.workers * self.devices < 2:
            raise StrategyError("a timeline needs two replicas or more.", hint="Use --workers 2.")


@dataclass(frozen=True)
class Timeline:
    """What was found.

    Attributes:
      steps: by way of summing (`MANY`, `ONE`, `SILENT`), for each replica the traced step whose
        length is the median.
      seconds: of a step without notes, by way, one value a round.
      hidden: share of the communication under the backward pass, by way, of all traced steps.
      predicted: seconds that buckets should save over one buffer.
    """

    steps: dict[str, list[Step]]
    seconds: dict[str, list[float]]
    hidden: dict[str, Spread]
    predicted: float

    @property
    def saved(self) -> Spread:
        """Seconds that buckets have saved, in each pair of turns."""
        pairs = zip(self.seconds[ONE], self.seconds[MANY], strict=True)
        return Spread(tuple(one - many for one, many in pairs))


def measure_timeline(options: TimelineOptions, say: Callable[[str], None]) -> Timeline:
    """Trains with buckets, with one buffer and with nothing sent, in turn.

    Raises:
      StrategyError: the replicas or the reducer cannot be had.
      WorkerError: a process failed, or took too long.
    """
    traced: dict[str, list[list[Step]]] = {}
    seconds: dict[str, list[float]] = {MANY: [], ONE: []}
    with contextlib.ExitStack() as stack:
        groups = {}
        for way in (MANY, ONE, SILENT):
            say(f"starting: {way}")
            groups[way] = stack.enter_context(_group(options, way))
            groups[way].wait_until_ready()
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}")
            for way in (MANY, ONE) if number % 2 == 0 else (ONE, MANY):
                taken = slowest(groups[way].turn(what="steps", count=options.steps))
                seconds[way].append(statistics.median(taken))
        for way, group in groups.items():
            noted = group.turn(what="trace", count=_TRACED_STEPS)
            traced[way] = [
                [read_step(own[step], replica) for own in noted for replica in _replicas(own)]
                for step in range(_TRACED_STEPS)
            ]
    chosen = {way: _median_step(found) for way, found in traced.items()}
    hidden = {
        way: Spread(tuple(step.hidden_share for each in found for step in each))
        for way, found in traced.items()
        if way != SILENT
    }
    return Timeline(chosen, seconds, hidden, predict_saving(chosen))


def predict_saving(steps: dict[str, list[Step]]) -> float:
    """What one buffer takes, less what would stay of it after the backward pass."""
    # The last to be ready waits for nobody: the least is what the sum itself takes.
    whole = min(step.communication for step in steps[ONE])
    silent = steps[SILENT]
    count = len(silent[0].buckets)
    ready = [max(step.buckets[place].ready for step in silent) for place in range(count)]
    sizes = [bucket.size_bytes for bucket in silent[0].buckets]
    return whole - predict_tail(ready, sizes, whole)


def _median_step(found: list[list[Step]]) -> list[Step]:
    return sorted(found, key=lambda steps: max(step.end for step in steps))[len(found) // 2]


def _replicas(noted: list[dict[str, Any]]) -> range:
    return range(len(noted[0]["losses"]))


def _group(options: TimelineOptions, way: str) -> Contestant:
    job = {
        "library": "timeline",
        "model": options.model,
        "global_batch": options.batch,
        "devices": options.devices,
        "reducer": options.reducer,
        "bucket_mb": _ONE_BUCKET_MB if way == ONE else options.bucket_mb,
        "silent": way == SILENT,
    }
    return Contestant(tensorflow(way, job, options.workers))
