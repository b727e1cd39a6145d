"""tfdp beside other programs that train the same model, in turn."""

from __future__ import annotations

import contextlib
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from rich.table import Table

from tfdp.bench.peers.contestant import Contestant, Program, slowest
from tfdp.bench.peers.contestants import check_peer_python, tensorflow, torch
from tfdp.bench.peers.names import OTHERS
from tfdp.bench.report import machine
from tfdp.bench.spread import Spread, ratios
from tfdp.cluster.runtime import usable_cores

FORMAT_VERSION: Final = 1


@dataclass(frozen=True)
class PeersOptions:
    """What to measure.

    Attributes:
      models: names in `tfdp.bench.peers.names.NAMES`.
      global_batch: rows of a step, all workers together.
      workers: processes of each contestant, one replica each.
      reducers: of tfdp, with "+bf16" and the like for compression; each is a contestant.
      against: some of `OTHERS`.
      peer_python: an interpreter that has PyTorch; None: PyTorch is not measured.
      bare: also compare tfdp on one device with Keras without tfdp.
      rounds: turns that each has; one pair a round.
      steps: in each turn.
    """

    models: tuple[str, ...] = ("resnet50",)
    global_batch: int = 64
    workers: int = 2
    reducers: tuple[str, ...] = ("mpi",)
    against: tuple[str, ...] = OTHERS
    peer_python: str | None = None
    bare: bool = False
    rounds: int = 7
    steps: int = 4


@dataclass(frozen=True)
class Race:
    """One model; the seconds of a step of every contestant, one value a round.

    Attributes:
      model: its name.
      samples: of a step.
      seconds: by contestant, the median of the steps of its turn, of the slowest worker.
      pairs: which contestants are compared: the first's speed over the second's.
    """

    model: str
    samples: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    pairs: list[tuple[str, str]] = field(default_factory=list)

    def speed(self, name: str) -> Spread:
        """Samples a second."""
        return Spread(tuple(self.samples / each for each in self.seconds[name]))

    def ratio(self, name: str, other: str) -> Spread:
        """How many times as fast as the other, in each round."""
        return ratios(self.seconds[other], self.seconds[name])


def compare_peers(
    options: PeersOptions, say: Callable[[str], None]
) -> tuple[list[Race], dict[str, str]]:
    """Times all contestants; also why some are left out.

    Raises:
      StrategyError: what was asked for cannot be had.
      WorkerError: a process failed, or took too long.
    """
    absent = {"Horovod": "not compared: there is no build of it for this TensorFlow"}
    if "gloo" not in options.against:
        absent["PyTorch DDP, Gloo"] = "not asked for"
    elif options.peer_python is None:
        absent["PyTorch DDP, Gloo"] = "no --peer-python PATH of a Python that has torch"
    else:
        say(f"PyTorch {check_peer_python(options.peer_python)} in {options.peer_python}")
    return [_race(options, model, say) for model in options.models], absent


def _race(options: PeersOptions, model: str, say: Callable[[str], None]) -> Race:
    job = {"model": model, "global_batch": options.global_batch, "devices": 1}
    programs, pairs = _contestants(options, job)
    race = Race(model, options.global_batch, {program.name: [] for program in programs}, pairs)
    with contextlib.ExitStack() as stack:
        started = []
        for program in programs:
            say(f"{model}: starting {program.name}")
            started.append(stack.enter_context(Contestant(program)))
            started[-1].wait_until_ready()
        run_rounds(started, options.rounds, race.seconds, say, what="steps", count=options.steps)
    return race


def _contestants(
    options: PeersOptions, job: dict[str, Any]
) -> tuple[list[Program], list[tuple[str, str]]]:
    ours, others = [], []
    for text in options.reducers:
        reducer, _, compression = text.partition("+")
        own = {**job, "library": "tfdp", "reducer": reducer, "compression": compression or "none"}
        ours.append(tensorflow(f"tfdp, {text}", own, options.workers))
    stock = {**job, "library": "stock"}
    if "stock" in options.against:
        others.append(tensorflow("stock MWMS", stock, options.workers))
    if "stock_threads" in options.against:
        untuned = {**stock, "tuned": False}
        others.append(tensorflow("stock MWMS, default threads", untuned, options.workers))
    if "gloo" in options.against and options.peer_python is not None:
        others.append(torch(options.peer_python, job, options.workers))
    pairs = [(own.name, other.name) for own in ours for other in others]
    alone = []
    if options.bare:
        single = {**job, "library": "tfdp", "reducer": "auto"}
        alone.append(tensorflow("tfdp, one device", single, 1))
        alone.append(tensorflow("bare Keras", {**job, "library": "keras"}, 1))
        pairs.append((alone[0].name, alone[1].name))
    return [*ours, *others, *alone], pairs


def run_rounds(
    contestants: Sequence[Contestant],
    rounds: int,
    seconds: dict[str, list[float]],
    say: Callable[[str], None],
    **asked: Any,
) -> None:
    """Gives every contestant a turn in every round, the order reversed in every second one.

    Args:
      contestants: started and ready.
      rounds: how many.
      seconds: by name, where each turn's median is added.
      say: told of each round.
      asked: see `Contestant.turn`.
    """
    for number in range(rounds):
        taken = []
        for each in contestants if number % 2 == 0 else reversed(contestants):
            seconds[each.name].append(statistics.median(slowest(each.turn(**asked))))
            taken.append(f"{each.name} {seconds[each.name][-1] * 1e3:.1f} ms")
        say(f"round {number + 1} of {rounds}: {', '.join(taken)}")


class PeersReport:
    """What `tfdp bench peers` prints and writes.

    Args:
      options: what was asked for.
      races: what was found.
      absent: peers that were not measured, with the reason.
    """

    def __init__(
        self, options: PeersOptions, races: Sequence[Race], absent: dict[str, str]
    ) -> None:
        self._options = options
        self._races = races
        self._absent = absent

    def tables(self) -> list[Table]:
        """Speeds and ratios; quartiles in parentheses, the ratios also with their range."""
        speeds = Table(title=f"{self._options.workers} workers, median (quartiles)")
        for heading in ("model", "contestant", "samples/s", "ms a step"):
            speeds.add_column(heading, justify="left" if "m" in heading[:1] else "right")
        pairs = Table(title=f"ratio of speeds, {self._options.rounds} pairs in turn")
        for heading in ("model", "first", "over", "ratio", "range"):
            pairs.add_column(heading)
        for race in self._races:
            for name, seconds in race.seconds.items():
                milliseconds = Spread(tuple(seconds)).text(1, 1e3)
                speeds.add_row(race.model, name, race.speed(name).text(0), milliseconds)
            for name, other in race.pairs:
                found = race.ratio(name, other)
                span = f"{min(found.values):.2f} to {max(found.values):.2f}"
                pairs.add_row(race.model, name, other, found.text(2), span)
        return [speeds, pairs]

    def lines(self) -> list[str]:
        """Who was left out, and under which conditions all ran."""
        threads = max(1, usable_cores() // self._options.workers)
        return [
            f"{threads} compute thread{'s' if threads > 1 else ''} for each worker, oneDNN on, "
            f"global batch {self._options.global_batch}; stock MWMS with default threads: "
            f"{usable_cores()}.",
            *(f"not measured: {name}: {reason}" for name, reason in self._absent.items()),
        ]

    def to_json(self) -> str:
        """Everything, each round."""
        races = [
            {
                "model": race.model,
                "step_seconds": race.seconds,
                "ratios": [
                    {"first": name, "over": other, **race.ratio(name, other).to_json()}
                    for name, other in race.pairs
                ],
            }
            for race in self._races
        ]
        return json.dumps(
            {
                "version": FORMAT_VERSION,
                "machine": machine(),
                "options": asdict(self._options),
                "races": races,
                "absent": self._absent,
            },
            indent=2,
        )
