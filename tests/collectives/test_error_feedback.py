"""Compression that owes: what it keeps and what it sends, against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.collectives.seats import Seat, as_workers
from tfdp.collectives.between_workers import WorkerReduction
from tfdp.collectives.compression import Compression, compress
from tfdp.collectives.compression_powersgd import PowerSgd
from tfdp.collectives.compression_topk import TopK
from tfdp.collectives.error_feedback import CompressionState, ErrorFeedback, Slot
from tfdp.errors import StrategyError

WORKERS = 2
SHAPES = ((40, 50), (1500,), (3, 3, 8, 64), (7,), (), (50, 60))


class Alone(WorkerReduction):
    """The sum of one worker."""

    def sum(self, vector: tf.Tensor, when: tf.Tensor | None = None) -> tf.Tensor:
        return tf.identity(vector)

    def gather(self, rows: tf.Tensor) -> tf.Tensor:
        return tf.identity(rows)


def slots_of(method: ErrorFeedback, shapes: Any, dtype: Any = tf.float64) -> list[Slot | None]:
    found: list[Slot | None] = []
    for number, shape in enumerate(shapes):
        if not method.compresses(shape):
            found.append(None)
            continue
        basis = method.basis_shape(shape)
        start = [] if basis is None else [np.random.default_rng(number).normal(size=basis)]
        found.append(
            Slot(
                tf.Variable(tf.zeros(shape, dtype)),
                tuple(tf.Variable(tf.constant(each, dtype)) for each in start),
            )
        )
    return found


def gradients(rank: int, step: int) -> list[np.ndarray]:
    """Integers, whose sums are exact in float64."""
    rng = np.random.default_rng([rank, step])
    return [rng.integers(-99, 99, size=shape).astype(np.float64) for shape in SHAPES]


def train(method: ErrorFeedback, rank: int, steps: int, slots: Any) -> list[list[np.ndarray]]:
    """The sums of each step."""
    found = []
    for step in range(steps):
        tensors = [tf.constant(each) for each in gradients(rank, step)]
        state = CompressionState(tf.constant(step), slots)
        found.append([each.numpy() for each in method.sum_compressed(tensors, state)])
    return found


@pytest.mark.parametrize(("name", "exact"), [("topk", True), ("powersgd", False)])
def test_what_was_sent_and_what_is_owed_is_the_sum_of_all_gradients(name: str, exact: bool) -> None:
    steps = 12

    def work(rank: int, seat: Seat) -> Any:
        method = compress(seat, Compression(name, rank=2, ratio=0.05))
        assert isinstance(method, ErrorFeedback)
        slots = slots_of(method, SHAPES)
        sums = train(method, rank, steps, slots)
        return sums, [None if s is None else s.residual.numpy() for s in slots], seat.sent

    results = as_workers(WORKERS, work)
    for place, shape in enumerate(SHAPES):
        owed = [owes[place] for _, owes, _ in results]
        sent = sum(step[place] for step in results[0][0])
        true = sum(gradients(w, t)[place] for w in range(WORKERS) for t in range(steps))
        assert np.shape(sent) == shape
        total = sent if owed[0] is None else sent + sum(owed)
        if exact or owed[0] is None:
            np.testing.assert_array_equal(total, true)
        else:
            np.testing.assert_allclose(total, true, rtol=0, atol=1e-9)
    assert [place for place, each in enumerate(results[0][1]) if each is None] == (
        [3, 4] if name == "topk" else [1, 3, 4]
    )
    for mine, other in zip(results[0][0], results[1][0], strict=True):
        assert [each.tobytes() for each in mine] == [each.tobytes() for each in other]
    elements = steps * sum(math.prod(shape) for shape in SHAPES)
    assert results[0][2] < elements * (0.12 if name == "topk" else 0.4)


def test_top_k_sends_the_largest() -> None:
    method = TopK(Alone(), ratio=0.1)
    slots = slots_of(method, [(40, 50)])
    values = np.random.default_rng(1).permutation(2000).reshape(40, 50) - 1000.0
    (total,) = method.sum_compressed([tf.constant(values)], CompressionState(tf.constant(0), slots))
    kept = np.sort(np.abs(values).ravel())[-200:]
    np.testing.assert_array_equal(np.sort(np.abs(total.numpy()[total.numpy() != 0])), kept)


def test_what_top_k_owes_is_bounded() -> None:
    ratio, norm = 0.1, 1.0
    method = TopK(Alone(), ratio)
    slots = slots_of(method, [(2000,)])
    # |e'| <= sqrt(1 - k/n) (|e| + |g|): the geometric series.
    shrinks = math.sqrt(1 - ratio)
    limit = norm * shrinks / (1 - shrinks)
    rng, largest = np.random.default_rng(2), 0.0
    for step in range(80):
        gradient = rng.normal(size=2000) + 0.5  # a direction that does not cancel
        gradient *= norm / np.linalg.norm(gradient)
        method.sum_compressed([tf.constant(gradient)], CompressionState(tf.constant(step), slots))
        largest = max(largest, float(np.linalg.norm(slots[0].residual.numpy())))
    assert norm < largest < limit  # more than one gradient is owed, and not more than the limit


def test_what_powersgd_owes_is_bounded() -> None:
    method = PowerSgd(Alone(), rank=2)
    slots = slots_of(method, [(20, 30)])
    gradient = np.random.default_rng(3).normal(size=(20, 30))
    owed = []
    for step in range(100):
        method.sum_compressed([tf.constant(gradient)], CompressionState(tf.constant(step), slots))
        owed.append(float(np.linalg.norm(slots[0].residual.numpy())))
    # Each step sends two of the twenty directions: a debt waits about ten steps.
    assert max(owed) < 20 / 2 * np.linalg.norm(gradient)
    assert max(owed[50:]) < 1.2 * max(owed[:50])


def test_powersgd_reproduces_a_sum_of_its_rank() -> None:
    rng = np.random.default_rng(4)
    left, right = rng.normal(size=(40, 3)), rng.normal(size=(3, 50))
    mixes = [rng.normal(size=(3, 3)) for _ in range(WORKERS)]

    def work(rank: int, seat: Seat) -> Any:
        method = PowerSgd(seat, rank=3)
        slots = slots_of(method, [(40, 50)])
        state = CompressionState(tf.constant(0), slots)
        (total,) = method.sum_compressed([tf.constant(left @ mixes[rank] @ right)], state)
        return total.numpy(), slots[0].residual.numpy()  # type: ignore[union-attr]

    for total, owed in as_workers(WORKERS, work):
        np.testing.assert_allclose(total, left @ sum(mixes) @ right, rtol=0, atol=1e-10)
        np.testing.assert_allclose(owed, 0, atol=1e-10)


@pytest.mark.parametrize("method", [TopK(Alone(), 0.1, 2), PowerSgd(Alone(), 2, 2)])
def test_warm_up_and_condition_in_a_graph(method: ErrorFeedback) -> None:
    shapes = ((40, 50), (7,))
    slots = slots_of(method, shapes)
    value = [np.random.default_rng(5).normal(size=shape) for shape in shapes]
    (residual,) = [slot.residual for slot in slots if slot is not None]

    @tf.function(autograph=False)
    def run(step: Any, when: Any) -> Any:
        tensors = [tf.constant(each) for each in value]
        return method.sum_compressed(tensors, CompressionState(step, slots), when)

    for step in (0, 1):
        for total, each in zip(run(tf.constant(step), tf.constant(True)), value, strict=True):
            np.testing.assert_array_equal(total, each)
        assert not residual.numpy().any()
    run(tf.constant(2), tf.constant(False))
    assert not residual.numpy().any()
    total, whole = run(tf.constant(2), tf.constant(True))
    np.testing.assert_array_equal(whole, value[1])
    assert 0.1 < np.linalg.norm(residual.numpy()) < np.linalg.norm(value[0])
    np.testing.assert_allclose(total + residual, value[0], atol=1e-12)


@pytest.mark.parametrize("method", [TopK(Alone(), 0.1), PowerSgd(Alone(), 2)])
def test_a_nan_is_told_and_not_kept(method: ErrorFeedback) -> None:
    slots = slots_of(method, [(40, 50)])
    state = CompressionState(tf.constant(0), slots)
    value = np.random.default_rng(6).normal(size=(40, 50))
    method.sum_compressed([tf.constant(value)], state)
    slot = slots[0]
    assert slot is not None
    before = [each.numpy() for each in (slot.residual, *slot.basis)]
    broken = value.copy()
    broken[3, 4] = np.nan
    (total,) = method.sum_compressed([tf.constant(broken)], state)
    assert np.isnan(total.numpy()).any()
    for each, kept in zip((slot.residual, *slot.basis), before, strict=True):
        np.testing.assert_array_equal(each.numpy(), kept)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"name": "topk2"}, "Did you mean 'topk'"),
        ({"rank": 0}, "compression_rank=0 is not an integer of 1 or more"),
        ({"ratio": 1.0}, "compression_ratio=1.0 is not a number between 0 and 1"),
        ({"warmup_steps": -1}, "compression_warmup_steps=-1 is not an integer of 0"),
    ],
)
def test_wrong_options(options: dict[str, Any], why: str) -> None:
    with pytest.raises(StrategyError, match=why):
        Compression(**options)
