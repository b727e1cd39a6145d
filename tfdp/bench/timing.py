"""Times all-reduces as a training step makes them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfdp.bench.candidates import Candidate
from tfdp.strategies.factory import strategy
from tfdp.strategies.step import current_step

_WARM_UP = 2
_BYTES_OF_FLOAT32 = 4


def time_in_worker(
    reducer: str, compression: str, devices: int, sizes: Sequence[int], repetitions: int
) -> list[list[float]]:
    """In one worker of a group: the seconds of every size, in the order of the repetitions."""
    made = strategy(
        "multi_worker", devices=devices, cross_device_ops=reducer, compression=compression
    )
    return time_in_turn([made], sizes, repetitions)[0]


def time_mirrored(
    candidates: Sequence[Candidate], devices: int, sizes: Sequence[int], repetitions: int
) -> list[list[list[float]]]:
    """In this process: for every candidate the seconds of every size."""
    made = [
        strategy("mirrored", devices=devices, cross_device_ops=each.reducer) for each in candidates
    ]
    return time_in_turn(made, sizes, repetitions)


def time_in_turn(
    strategies: Sequence[Any], sizes: Sequence[int], repetitions: int
) -> list[list[list[float]]]:
    """Seconds by strategy, size and repetition.

    In each repetition every size of every strategy has one turn, so that a machine which becomes
    slower or faster does so for all of them.
    """
    seconds: list[list[list[float]]] = [[[] for _ in sizes] for _ in strategies]
    for place, size in enumerate(sizes):
        reductions = [reduction_of(each, size) for each in strategies]
        for reduce in reductions * _WARM_UP:
            reduce()
        for _ in range(repetitions):
            for number, reduce in enumerate(reductions):
                begin = time.perf_counter()
                reduce()
                seconds[number][place].append(time.perf_counter() - begin)
    return seconds


def reduction_of(made: Any, size_bytes: int, tensors: int = 1) -> Callable[[], None]:
    """A function that sums float32 buffers over all replicas, and waits for the sums.

    Args:
      made: a strategy of tfdp with two replicas or more.
      size_bytes: of all buffers together.
      tensors: how many equal ones; a multiple of them has to fill the size.
    """
    elements = size_bytes // _BYTES_OF_FLOAT32 // tensors
    held = _traced(lambda: made.run(lambda: [tf.ones([elements]) for _ in range(tensors)]))()

    @tf.autograph.experimental.do_not_convert
    def reduce(values: Any) -> Any:
        step = current_step()
        assert step is not None, "there are two replicas or more"
        totals = step.sum_gradients(list(values))
        return totals[-1][0], totals

    run = _traced(lambda: made.run(reduce, args=(held,)))

    def call() -> None:
        firsts, _ = run()
        for first in made.experimental_local_results(firsts):
            first.numpy()  # waits, where the device works on its own

    return call


def _traced(function: Callable[[], Any]) -> Callable[[], Any]:
    """The graph of a function without arguments, made now and never again."""
    traced: Callable[[], Any] = tf.function(function, autograph=False).get_concrete_function()
    return traced
