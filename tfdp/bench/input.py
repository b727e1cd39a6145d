"""How fast tfdp's input is beside plain tf.data that does the same work."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import tensorflow as tf

from tfdp.bench.input_made import KINDS, make_data
from tfdp.bench.input_timing import (
    bare_pipelines,
    in_turn,
    make_batches,
    memory_by_epoch,
    seconds_of_epoch,
    seconds_of_stages,
    seconds_to_first_batch,
    tfdp_pipelines,
)
from tfdp.config import DataConfig
from tfdp.data.builder import load_data
from tfdp.data.examples import Examples
from tfdp.errors import DataError

_FIRST_BATCHES = 3


@dataclass(frozen=True)
class InputOptions:
    """What to measure.

    Attributes:
      configs: name, section ``data`` and directory of each config.
      made: kinds of made-up data, see `tfdp.bench.input_made`.
      rows: numbers of made-up examples.
      global_batch: of made-up data.
      pipelines: numbers of workers that share the examples.
      repetitions: epochs of each of the two, in turn.
      epochs: for the memory.
    """

    configs: tuple[tuple[str, DataConfig, Path], ...] = ()
    made: tuple[str, ...] = tuple(KINDS)
    rows: tuple[int, ...] = (100_000,)
    global_batch: int = 128
    pipelines: tuple[int, ...] = (1, 2, 4)
    repetitions: int = 5
    epochs: int = 10


@dataclass(frozen=True)
class Comparison:
    """One number of pipelines.

    Attributes:
      pipelines: how many share the examples.
      tfdp_seconds: of each epoch.
      bare_seconds: the same of plain tf.data; each pair was measured one after the other.
    """

    pipelines: int
    tfdp_seconds: tuple[float, ...]
    bare_seconds: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """Speed of tfdp over that of plain tf.data, of each pair."""
        pairs = zip(self.tfdp_seconds, self.bare_seconds, strict=True)
        return sorted(bare / ours for ours, bare in pairs)

    @property
    def ratio(self) -> float:
        """The median of the pairs."""
        return median(self.ratios)


@dataclass(frozen=True)
class InputMeasurement:
    """What was measured of one source.

    Attributes:
      name: of the source, or of the config.
      rows: examples in an epoch.
      load_seconds: until the source was there.
      comparisons: for each number of pipelines.
      first_batch: seconds to the first batch, by "tfdp" and "bare", without loading.
      stages: seconds that each stage adds to an epoch.
      memory: bytes in memory after each epoch.
    """

    name: str
    rows: int
    load_seconds: float
    comparisons: tuple[Comparison, ...]
    first_batch: dict[str, float]
    stages: dict[str, float]
    memory: tuple[int, ...]

    @property
    def limit(self) -> str:
        """The stage that adds most."""
        return max(self.stages, key=lambda stage: self.stages[stage])

    @property
    def growth_per_epoch(self) -> float:
        """Bytes, over the second half of the epochs: the first ones fill buffers."""
        half = self.memory[len(self.memory) // 2 :]
        return (half[-1] - half[0]) / max(len(half) - 1, 1)


def measure_input(
    options: InputOptions, say: Callable[[str], None] = lambda line: None
) -> list[InputMeasurement]:
    """Measures every config and every kind of made-up data, one after the other.

    Args:
      options: see there.
      say: told what is measured now.

    Raises:
      TfdpError: a source cannot be loaded or read.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tfdp-bench-")))
        found = []
        for name, config, directory in _subjects(options, folder):
            say(f"measuring {name}")
            found.append(measure_one(name, config, directory, options))
        return found


def measure_one(
    name: str, config: DataConfig, directory: Path, options: InputOptions
) -> InputMeasurement:
    """Measures one source.

    Raises:
      DataError: it is a tf.data.Dataset of the user's: there is nothing to compare it with.
    """
    loaded: list[Examples] = []
    load_seconds = _timed(lambda: loaded.append(load_data(config, directory).train))
    examples = loaded[0]
    if isinstance(examples, tf.data.Dataset):
        raise DataError(
            f"{name}: data.function gives a tf.data.Dataset, which tfdp hands on as it is: there "
            "is nothing to compare.",
            hint="Measure a source by name, or a function that returns arrays.",
        )
    batches = make_batches(examples, config, directory)
    return InputMeasurement(
        name=name,
        rows=int(examples.rows),
        load_seconds=load_seconds,
        comparisons=tuple(
            _compare(examples, config, batches, count, options.repetitions)
            for count in options.pipelines
        ),
        first_batch=_first_batches(examples, config, directory),
        stages=seconds_of_stages(batches),
        memory=tuple(memory_by_epoch(batches, options.epochs)),
    )


def _subjects(options: InputOptions, folder: Path) -> Iterator[tuple[str, DataConfig, Path]]:
    yield from options.configs
    for rows in options.rows:
        for kind in options.made:
            place = folder / f"{kind}-{rows}"
            place.mkdir()
            config = dataclasses.replace(
                make_data(kind, rows, place), global_batch=options.global_batch
            )
            yield kind, config, place


def _compare(
    examples: Any, config: DataConfig, batches: Any, pipelines: int, repetitions: int
) -> Comparison:
    ours, bare = tfdp_pipelines(batches, pipelines), bare_pipelines(examples, config, pipelines)
    first, second = in_turn(
        lambda: seconds_of_epoch(ours), lambda: seconds_of_epoch(bare), repetitions
    )
    return Comparison(pipelines, tuple(first), tuple(second))


def _first_batches(examples: Any, config: DataConfig, directory: Path) -> dict[str, float]:
    def ours() -> tf.data.Dataset:
        return tfdp_pipelines(make_batches(examples, config, directory), 1)[0]

    def bare() -> tf.data.Dataset:
        return bare_pipelines(examples, config, 1)[0]

    both = in_turn(
        lambda: seconds_to_first_batch(ours), lambda: seconds_to_first_batch(bare), _FIRST_BATCHES
    )
    return dict(zip(("tfdp", "bare"), map(median, both), strict=True))


def _timed(action: Callable[[], None]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def linear_deviation(measurements: Sequence[InputMeasurement]) -> float:
    """How many times more an example costs at one size than at another, of one source."""
    costs = [min(each.comparisons[0].tfdp_seconds) / each.rows for each in measurements]
    return max(costs) / min(costs)
