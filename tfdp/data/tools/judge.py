"""Which examples were lost or doubled: counting alone, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Expected:
    """Examples, and how often each should come.

    Attributes:
      ids: identities of one sweep over the examples; equal ones are equal examples.
      complete: sweeps that should be complete: each example comes at least so often.
      begun: sweeps that were begun: no example comes more often.
      droppable: examples that dropping the remainder leaves out, over all sweeps.
    """

    ids: np.ndarray
    complete: int = 1
    begun: int = 1
    droppable: int = 0


@dataclass(frozen=True)
class Verdict:
    """What is wrong with an epoch, in examples.

    Attributes:
      lost: came less often than they should.
      doubled: how many times too often examples came.
      dropped: came less often because the remainder is dropped.
      unknown: are none of those that were expected.
      examples: some identities of lost and of doubled ones.
    """

    lost: int = 0
    doubled: int = 0
    dropped: int = 0
    unknown: int = 0
    examples: dict[str, list[int]] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        return not (self.lost or self.doubled or self.unknown)


_SHOWN = 5


def judge(expected: Expected, found: np.ndarray) -> Verdict:
    """Compares what came with what should have come.

    Args:
      expected: see there.
      found: the identities that came, in any order, each as often as it came.
    """
    known, times = np.unique(expected.ids, return_counts=True)
    came, counts = np.unique(found, return_counts=True)
    is_known = np.isin(came, known, assume_unique=True)
    count = np.zeros(len(known), np.int64)
    count[np.searchsorted(known, came[is_known])] = counts[is_known]
    less = np.maximum(times * expected.complete - count, 0)
    more = np.maximum(count - times * expected.begun, 0)
    lost, dropped = int(less.sum()), 0
    if lost <= expected.droppable:
        lost, dropped = 0, lost
    shown = {"doubled": known[more > 0][:_SHOWN].tolist()}
    shown["lost"] = known[less > 0][:_SHOWN].tolist() if lost else []
    return Verdict(lost, int(more.sum()), dropped, int(counts[~is_known].sum()), shown)


def merged(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The examples of several workers, those that more than one has taken once.

    An example that one worker has twice comes twice.
    """
    if len(parts) == 1:
        return parts[0]
    pairs = [np.unique(part, return_counts=True) for part in parts]
    ids = np.concatenate([each for each, _ in pairs])
    times = np.concatenate([counts for _, counts in pairs])
    order = np.lexsort((times, ids))
    ids, times = ids[order], times[order]
    last = np.append(ids[1:] != ids[:-1], True) if len(ids) else np.zeros(0, bool)
    return np.repeat(ids[last], times[last])


def shared(parts: Sequence[np.ndarray]) -> int:
    """How many examples more than one worker has, counted as often as too many of them have it."""
    return sum(len(part) for part in parts) - len(merged(parts))
