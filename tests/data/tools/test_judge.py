"""Lost and doubled examples, against counting by hand and with Counter."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tfdp.data.tools.judge import Expected, Verdict, judge, merged, shared


def ids(*values: int) -> np.ndarray:
    return np.asarray(values, np.int64)


@pytest.mark.parametrize(
    ("expected", "found", "numbers"),
    [
        (Expected(ids(1, 2, 3)), ids(3, 1, 2), (0, 0, 0, 0)),
        (Expected(ids(1, 2, 3)), ids(3, 1), (1, 0, 0, 0)),
        (Expected(ids(1, 2, 3)), ids(3, 1, 1, 1), (1, 2, 0, 0)),
        (Expected(ids(1, 1, 2)), ids(1, 2, 1), (0, 0, 0, 0)),
        (Expected(ids(1, 1, 2)), ids(1, 2), (1, 0, 0, 0)),
        (Expected(ids(1, 2)), ids(1, 2, 9), (0, 0, 0, 1)),
        (Expected(ids(1, 2, 3), droppable=1), ids(3, 1), (0, 0, 1, 0)),
        (Expected(ids(1, 2, 3), droppable=1), ids(3), (2, 0, 0, 0)),
        # two sweeps and a part of a third
        (Expected(ids(1, 2), complete=2, begun=3), ids(1, 2, 2, 1, 2), (0, 0, 0, 0)),
        (Expected(ids(1, 2), complete=2, begun=3), ids(1, 2, 2, 2, 2), (1, 1, 0, 0)),
        (Expected(ids()), ids(), (0, 0, 0, 0)),
    ],
)
def test_verdicts(expected: Expected, found: np.ndarray, numbers: tuple[int, ...]) -> None:
    verdict = judge(expected, found)
    assert (verdict.lost, verdict.doubled, verdict.dropped, verdict.unknown) == numbers
    assert verdict.sound == (not any(numbers[:2]) and not numbers[3])


def test_against_counters() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        expected, found = rng.integers(0, 12, 20), rng.integers(0, 14, 20)
        wanted, came = Counter(expected.tolist()), Counter(found.tolist())
        unknown = sum(count for number, count in came.items() if number not in wanted)
        verdict = judge(Expected(expected), found)
        assert verdict.lost == (wanted - came).total()
        assert verdict.doubled == (came - wanted).total() - unknown
        assert verdict.unknown == unknown


def test_what_is_lost_and_doubled_is_named() -> None:
    verdict = judge(Expected(ids(4, 5, 6)), ids(5, 5, 4))
    assert verdict.examples == {"lost": [6], "doubled": [5]}
    assert Verdict().sound


def test_examples_of_several_workers() -> None:
    parts = [ids(1, 1, 2), ids(2, 3), ids(1)]
    assert Counter(merged(parts).tolist()) == Counter([1, 1, 2, 3])
    assert shared(parts) == 2
    assert merged([ids(), ids()]).tolist() == []
