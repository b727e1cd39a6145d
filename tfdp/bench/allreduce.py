"""Times every reducer that can run here, one size after the other, in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfdp.bench.bandwidth import Measurement
from tfdp.bench.candidates import Candidate, choose
from tfdp.bench.groups import time_workers
from tfdp.bench.report import AllReduceReport
from tfdp.bench.sizes import DEFAULT_SIZES
from tfdp.bench.timing import time_mirrored
from tfdp.errors import StrategyError
from tfdp.strategies.devices import local_devices, topology


@dataclass(frozen=True)
class AllReduceOptions:
    """What to measure.

    Attributes:
      workers: processes; 1 measures the replicas of one process.
      devices: replicas in each process.
      sizes: bytes of a replica's buffer; multiples of 4.
      reducers: names, with "+bf16" or "+fp16" for compression; None: all that can run.
      rounds: how often each reducer's group of workers is started, in turn.
      repetitions: of every size in each round.
      timeout_seconds: for each group of workers.
    """

    workers: int = 1
    devices: int = 2
    sizes: tuple[int, ...] = DEFAULT_SIZES
    reducers: tuple[str, ...] | None = None
    rounds: int = 3
    repetitions: int = 10
    timeout_seconds: float = 600.0

    def __post_init__(self) -> None:
        if self.workers * self.devices < 2:
            raise StrategyError(
                "an all-reduce needs two replicas or more, and one device of one worker was "
                "asked for.",
                hint="Use --devices 2 or --workers 2.",
            )


def measure(options: AllReduceOptions) -> AllReduceReport:
    """Times the reducers.

    Raises:
      StrategyError: a reducer is unknown or cannot serve these devices, or there are too few.
      WorkerError: a worker failed, or the time was up.
    """
    shape = topology(local_devices(options.devices), options.workers)
    candidates, refused = choose(options.reducers, shape)
    seconds: dict[tuple[str, int], list[float]] = {}
    for _ in range(options.rounds):
        for name, times in _one_round(options, candidates):
            for size, more in zip(options.sizes, times, strict=True):
                seconds.setdefault((name, size), []).extend(more)
    measurements = [
        Measurement(name, size, shape.replicas, tuple(times))
        for (name, size), times in seconds.items()
    ]
    return AllReduceReport(options.workers, options.devices, tuple(measurements), refused)


def _one_round(
    options: AllReduceOptions, candidates: Sequence[Candidate]
) -> Iterator[tuple[str, list[list[float]]]]:
    """The names of the candidates, and their seconds by size and repetition."""
    if options.workers == 1:
        found = time_mirrored(candidates, options.devices, options.sizes, options.repetitions)
        yield from zip(map(str, candidates), found, strict=True)
        return
    for each in candidates:
        yield (
            str(each),
            time_workers(
                each,
                options.workers,
                options.devices,
                options.sizes,
                options.repetitions,
                options.timeout_seconds,
            ),
        )
