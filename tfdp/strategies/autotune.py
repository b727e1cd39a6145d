"""A short timed trial at the start, which decides how gradients are summed.

The trial runs a backward pass of `LAYERS` layers with 1 MB of gradient each, as the replicas would
in a step: first with every reducer that can serve the devices, then with other sizes of buckets.
All workers take part in every run; the slowest worker's time counts, and every worker computes the
same choice from the same table.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfdp.collectives import Reducer, Topology, names
from tfdp.collectives.buckets import DEFAULT_BUCKET_BYTES
from tfdp.collectives.registry import candidates
from tfdp.strategies.step import current_step

LAYERS = 16
BUCKETS_MB = (1, 16)
BUDGET_SECONDS = 3.0
_WIDTH = 512  # a layer's weights have 512 x 512 float32: 1 MB
_ROWS = 64
_LEAST_ROUNDS = 3
_MOST_ROUNDS = 15
_GAIN = 0.95
"""What a candidate's time has to be, as a part of the default's, to replace it."""

_log = logging.getLogger("tfdp")


@dataclass(frozen=True)
class Choice:
    """One way to sum: a reducer, and how many bytes go into a buffer."""

    reducer: Reducer
    bucket_bytes: int


@dataclass(frozen=True)
class Tuning:
    """What was tried and chosen.

    Attributes:
      chosen: the fastest; the first where no other is faster by 5 %.
      milliseconds: of the slowest worker, median of the rounds, for each choice tried.
      seconds: that the trial took.
    """

    chosen: Choice
    milliseconds: tuple[tuple[Choice, float], ...]
    seconds: float

    def to_plain(self, topology: Topology) -> dict[str, Any]:
        """As it is written to the run directory."""

        def plain(choice: Choice) -> dict[str, Any]:
            megabytes = choice.bucket_bytes / 2**20
            name = choice.reducer.name
            return {"cross_device_ops": name, "bucket_mb": megabytes}

        return {
            "devices": topology.describe(),
            "chosen": plain(self.chosen),
            "trial": [
                {**plain(choice), "milliseconds": round(each, 3)}
                for choice, each in self.milliseconds
            ],
            "gradient_mb": LAYERS,
            "seconds": round(self.seconds, 2),
        }


def tune(
    strategy: Any,
    topology: Topology,
    first: Choice,
    *,
    reducers: bool,
    buckets: bool,
) -> Tuning | None:
    """Tries the choices there are and lets the strategy use the best; a collective step.

    Args:
        strategy: has `tfdp_use`, and trains nothing yet.
        topology: what it reduces over.
        first: what it uses without a trial.
        reducers: whether another reducer may be chosen.
        buckets: whether another size of the buckets may.

    Returns:
        What was found, or None where there is nothing to choose between.
    """
    start = time.monotonic()
    tried: list[tuple[Choice, float]] = []
    best = first
    if reducers:
        others = [each for each in candidates(topology) if each.name != first.reducer.name]
        everywhere = _served_everywhere(strategy, others)
        named = [first, *(Choice(each, first.bucket_bytes) for each in everywhere)]
        if len(named) > 1:
            tried += _measure(strategy, named)
            best = _best(tried)
    if buckets and best.reducer.has_buckets(topology):
        sizes = [each * 2**20 for each in BUCKETS_MB if each * 2**20 != DEFAULT_BUCKET_BYTES]
        sized = [best, *(Choice(best.reducer, size) for size in sizes)]
        found = _measure(strategy, sized)
        best = _best(found)
        tried = [*tried, *(found[1:] if tried else found)]
    strategy.tfdp_use(best.reducer, best.bucket_bytes)
    if not tried:
        _log.info("autotune: there is nothing to choose between")
        return None
    tuning = Tuning(best, tuple(tried), time.monotonic() - start)
    told = ", ".join(f"{_name(choice)} {each:.1f} ms" for choice, each in tried)
    _log.info("autotune: %s (%s; in %.1f s)", _name(best), told, tuning.seconds)
    return tuning


def _served_everywhere(strategy: Any, reducers: Sequence[Reducer]) -> list[Reducer]:
    """Those that every worker has."""
    known = sorted(names())
    mine = {each.name for each in reducers}
    table = strategy.tfdp_gather_numbers([int(name in mine) for name in known])
    common = {name for name, has in zip(known, zip(*table, strict=True), strict=True) if all(has)}
    return [each for each in reducers if each.name in common]


def _measure(strategy: Any, choices: Sequence[Choice]) -> list[tuple[Choice, float]]:
    """Milliseconds of each; the rounds go through all of them, so that all see the same machine."""
    runs = [_run(strategy, choice) for choice in choices]
    times: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run()  # traces
    start = time.monotonic()
    for number in range(1, _MOST_ROUNDS + 1):
        for run, spent in zip(runs, times, strict=True):
            began = time.monotonic()
            run()
            spent.append(time.monotonic() - began)
        late = time.monotonic() - start > BUDGET_SECONDS / 2
        if number >= _LEAST_ROUNDS and strategy.tfdp_gather_from_workers(int(late))[0]:
            break  # as the first worker says: all have to do the same
    medians = [round(statistics.median(each) * 1e6) for each in times]
    table = strategy.tfdp_gather_numbers(medians)
    slowest = [max(row[place] for row in table) for place in range(len(choices))]
    return [(choice, each / 1e3) for choice, each in zip(choices, slowest, strict=True)]


def _run(strategy: Any, choice: Choice) -> Callable[[], None]:
    """One step of the trial, with a choice that holds from when it is traced."""
    rows = tf.fill([_ROWS, _WIDTH], 0.01)
    weights = tf.fill([_WIDTH, _WIDTH], 0.001)

    def replica(rows: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        layers = [tf.identity(weights) for _ in range(LAYERS)]
        with tf.GradientTape() as tape:
            tape.watch(layers)
            for layer in layers:
                rows = tf.tanh(rows @ layer)
            loss = tf.reduce_sum(rows)
        step = current_step()
        assert step is not None
        sums = step.sum_gradients(tape.gradient(loss, layers))
        return tf.add_n([each[0, 0] for each in sums])

    @tf.function(autograph=False)
    def traced(rows: tf.Tensor, weights: tf.Tensor) -> Any:
        return strategy.run(replica, args=(rows, weights))

    def run() -> None:
        strategy.tfdp_use(choice.reducer, choice.bucket_bytes)
        for part in strategy.experimental_local_results(traced(rows, weights)):
            part.numpy()

    return run


def _best(found: Sequence[tuple[Choice, float]]) -> Choice:
    first, default = found[0]
    choice, least = min(found, key=lambda each: each[1])
    return choice if least < _GAIN * default else first


def _name(choice: Choice) -> str:
    return f"{choice.reducer.name} with {choice.bucket_bytes / 2**20:g} MB"
