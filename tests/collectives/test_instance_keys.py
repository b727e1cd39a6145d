"""Numbers of collective operations come back, and never to another operation at once."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfdp
from tfdp.collectives.instance_keys import FIRST, PERIOD, KeyRanges, RecycledKeys, signature

DEADLINE_SECONDS = 180


def test_a_kind_takes_its_numbers_in_turn_and_nobody_elses() -> None:
    new = iter(range(10**6))
    keys = RecycledKeys(lambda: next(new))
    first = [keys.next("ab"[step % 2]) for step in range(FIRST)]
    assert first == list(range(FIRST))  # whatever they are
    taken: dict[str, list[int]] = {"a": [], "b": []}
    for step in range(3 * PERIOD):
        taken["a"].append(keys.next("a"))
        if step % 3 == 0:
            taken["b"].append(keys.next("b"))
    assert taken["a"] == 3 * taken["a"][:PERIOD]
    assert len(set(taken["a"])) == PERIOD
    assert not set(taken["a"]) & set(taken["b"])
    unknown = [keys.next(None) for _ in range(3 * PERIOD)]
    assert len({*first, *unknown, *taken["a"], *taken["b"]}) == FIRST + 3 * PERIOD + 2 * PERIOD


def test_what_makes_operations_alike() -> None:
    vector = tf.zeros([3])
    assert signature("reduce", vector) == signature("reduce", vector + 1)
    others = [tf.zeros([4]), tf.zeros([3, 1]), tf.zeros([3], tf.float64)]
    kinds = {signature("reduce", vector), signature("gather", vector)}
    assert len(kinds | {signature("reduce", other) for other in others}) == 5
    spec = tf.TensorSpec([None, 2])
    tf.function(lambda rows: kinds.add(signature("reduce", rows))).get_concrete_function(spec)
    assert None in kinds


@pytest.mark.parametrize("collide", [False, True])
def test_ranges_do_not_overlap(collide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if collide:
        monkeypatch.setattr(zlib, "crc32", lambda _: 2**24 - 1)
    ranges = KeyRanges()
    counts = [FIRST, FIRST + 1, FIRST + PERIOD - 1, FIRST + PERIOD, 2**31 - 1, -(2**31), -1]
    numbers: dict[Any, set[int]] = {}
    for kind in (("reduce", n) for n in range(50)):
        numbers[kind] = {int(ranges.key(kind, tf.constant(count))) for count in counts}
        assert numbers[kind] == {int(ranges.key(kind, tf.constant(count))) for count in counts}
    unknown = {int(ranges.key(None, tf.constant(count))) for count in counts[:-1]}
    assert len(unknown) == len(counts) - 1
    in_order = [0, 1, FIRST - 1]
    first = {int(ranges.key(("reduce", 7), tf.constant(count))) for count in in_order}
    assert first == {int(ranges.key(("gather", 7), tf.constant(count))) for count in in_order}
    assert len(first) == len(in_order)
    everything = [number for each in [*numbers.values(), unknown, first] for number in each]
    assert len(everything) == len(set(everything))
    assert all(0 <= number < 2**31 for number in everything)


def test_upstream_takes_a_new_number_for_every_operation() -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    (launcher, _) = strategy.extended._collective_ops._launchers
    numbers = [int(launcher._next_instance_key()) for _ in range(3 * PERIOD)]
    assert len(set(numbers)) == 3 * PERIOD


@pytest.mark.multi_process
@pytest.mark.slow
def test_sums_of_many_steps_take_no_new_numbers() -> None:
    results = tfdp.launch(
        "tests.collectives.keys_program:sums",
        workers=2,
        devices_per_worker=2,
        timeout=DEADLINE_SECONDS,
        start_timeout=90,
    )
    for result in results:
        assert result["new keys"] == 0
        for step, found in enumerate(result["found"]):
            over_replicas = step * (1 + 2 + 3 + 4)
            branch = over_replicas if step % 2 == 0 else -1
            expected = [over_replicas] * 4 + [branch] * 2 + [step * 3] * 2 + [step * 4]
            np.testing.assert_array_equal(found, expected, err_msg=f"step {step}")
