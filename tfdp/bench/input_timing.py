"""Times input pipelines, two kinds in turn."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfdp.bench.input_bare import bare_pipeline
from tfdp.config import DataConfig
from tfdp.data.arrays import Arrays
from tfdp.data.batches import EpochBatches, Workload
from tfdp.data.pipeline import training_batches
from tfdp.data.sources.base import Source

Pipelines = Sequence[tf.data.Dataset]
"""One for each worker."""


def tfdp_pipelines(batches: EpochBatches, workers: int) -> Pipelines:
    """Each worker's share, as a strategy of one replica a worker takes it."""
    workload: Workload = batches.dataset.tfdp_workload
    return [workload.share(worker, workers, 1) for worker in range(workers)]


def bare_pipelines(examples: Arrays | Source, config: DataConfig, workers: int) -> Pipelines:
    """The same shares in plain tf.data."""
    return [
        bare_pipeline(
            examples,
            worker=worker,
            workers=workers,
            batch=max(1, config.global_batch // workers),
            shuffle_buffer=config.shuffle_buffer,
        )
        for worker in range(workers)
    ]


def make_batches(examples: Any, config: DataConfig, directory: Path) -> EpochBatches:
    """tfdp's batches, as training makes them."""
    return training_batches(config, examples, directory=directory)


def seconds_of_epoch(pipelines: Pipelines) -> float:
    """Until every pipeline has given its last batch; each is read by a thread of its own."""
    begin = time.perf_counter()
    if len(pipelines) == 1:
        _exhaust(pipelines[0])
    else:
        with ThreadPoolExecutor(len(pipelines)) as pool:
            list(pool.map(_exhaust, pipelines))
    return time.perf_counter() - begin


def in_turn(
    first: Callable[[], float], second: Callable[[], float], repetitions: int
) -> tuple[list[float], list[float]]:
    """Calls two measurements in turn, each pair in the other order than the one before.

    Both are called once more at the start, which does not count.
    """
    first(), second()
    found: tuple[list[float], list[float]] = ([], [])
    for repetition in range(repetitions):
        for which in (0, 1) if repetition % 2 == 0 else (1, 0):
            found[which].append((first, second)[which]())
    return found


def seconds_to_first_batch(make: Callable[[], tf.data.Dataset]) -> float:
    """Makes a pipeline and waits for its first batch."""
    begin = time.perf_counter()
    next(iter(make()))
    return time.perf_counter() - begin


STAGES = ("read", "decode", "map", "copy")
"""read: the order, and of streams the bytes of the files. decode: parse, decode, gather. map:
scale, cast, and data.transform. copy: the replicas' pieces, prefetched and handed over."""


def seconds_of_stages(batches: EpochBatches) -> dict[str, float]:
    """What each stage adds to an epoch; the pipeline is run as far as each in turn.

    The stages overlap in training: where one takes much the most, it is what limits.
    """
    workload: Workload = batches.dataset.tfdp_workload
    tickets = workload.tickets(0, 1)
    calls = workload.parallel_calls or tf.data.AUTOTUNE
    until = [
        lambda: _drain(tickets),
        lambda: _drain(tickets.map(batches.source.read, num_parallel_calls=calls)),
        lambda: _drain(tickets.map(workload.finish, num_parallel_calls=calls)),
        lambda: seconds_of_epoch(tfdp_pipelines(batches, 1)),
    ]
    for run in until:
        run()
    reached = [min(run() for _ in range(3)) for run in until]
    before = [0.0, *reached[:-1]]
    pairs = zip(reached, before, strict=True)
    return dict(zip(STAGES, (max(now - then, 0.0) for now, then in pairs), strict=True))


def memory_by_epoch(batches: EpochBatches, epochs: int) -> Iterator[int]:
    """Bytes of this process that are in memory, after each of some epochs."""
    (pipeline,) = tfdp_pipelines(batches, 1)
    for epoch in range(epochs):
        batches.set_epoch(epoch)
        _exhaust(pipeline)
        gc.collect()
        yield resident_bytes()
    batches.set_epoch(0)


def resident_bytes() -> int:
    """Memory of this process (resident set size)."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _exhaust(dataset: tf.data.Dataset) -> None:
    for _ in dataset:
        pass


def _drain(dataset: tf.data.Dataset) -> float:
    """Reads a data set within TensorFlow: nothing is handed to Python."""
    options = tf.data.Options()
    options.autotune.enabled = False
    counted = dataset.with_options(options)
    begin = time.perf_counter()
    counted.reduce(tf.constant(0, tf.int64), lambda count, *_: count + 1).numpy()
    return time.perf_counter() - begin
