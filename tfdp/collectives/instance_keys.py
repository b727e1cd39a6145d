"""Numbers by which the workers find the matching collective operation.

TensorFlow remembers the dtype and the shape of every number that it has seen, some 2 kB each, as
long as the process lives. A number for every operation that runs, as TensorFlow's own strategies
take it, lets the memory grow with every step; a number that is taken again costs nothing.

A number may come back when no worker is still busy with the operation that had it before. The
operations of a group run one after the other, and one cannot end on a worker before it has begun
on all: so the operation before the last is over everywhere.

Workers that disagree about a shape then wait for different numbers, and for ever. So the first
operations are numbered as they come, whatever their shape: TensorFlow sees one number with two
shapes and says so. A program that is not the same on all workers shows it there; a disagreement
that begins later is a stall, which the supervisor of `tfdp launch` names.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable

import tensorflow as tf

PERIOD = 32
"""How many numbers an operation of one kind, dtype and shape takes in turn."""

FIRST = 1024
"""How many operations of a group are numbered as they come: 2 MB that stay."""

_BASES = 2**24
_NEVER_AGAIN = _BASES * PERIOD  # and above: for shapes that are known only when they run
_IN_ORDER = 2 * _NEVER_AGAIN  # and above: the first operations


def signature(kind: str, tensor: tf.Tensor) -> Hashable | None:
    """What operations with one number have in common; None where the shape is not known."""
    if not tensor.shape.is_fully_defined():
        return None
    return kind, tensor.dtype.name, tuple(tensor.shape.as_list())


class RecycledKeys:
    """Numbers counted outside the graph, whenever an operation is about to run.

    Args:
        new: makes a number that was never used; in the same order on all workers.
    """

    def __init__(self, new: Callable[[], int]) -> None:
        self._new = new
        self._first = FIRST
        self._used: dict[Hashable, list[int]] = {}
        self._count: dict[Hashable, int] = {}

    def next(self, kind: Hashable | None) -> int:
        """The number of the next operation.

        Args:
            kind: its `signature`; with None the number is never taken again.
        """
        if kind is None or self._first > 0:
            self._first -= 1
            return self._new()
        used = self._used.setdefault(kind, [])
        count = self._count.get(kind, 0)
        self._count[kind] = count + 1
        if len(used) < PERIOD:
            used.append(self._new())
            return used[-1]
        return used[count % PERIOD]


class KeyRanges:
    """A range of numbers for each kind of operation, for counting inside the graph.

    A range follows from the kind itself, so it does not matter in which order the workers trace
    their functions.
    """

    def __init__(self) -> None:
        self._taken: dict[int, Hashable] = {}

    def key(self, kind: Hashable | None, count: tf.Tensor) -> tf.Tensor:
        """The number of the operation that is the `count`-th of its group.

        Args:
            kind: its `signature`; with None the number comes back after 5e8 operations.
            count: int32 scalar.

        Returns:
            int32 scalar.
        """
        if kind is None:
            return _NEVER_AGAIN + tf.math.floormod(count, _NEVER_AGAIN)
        base = zlib.crc32(repr(kind).encode()) % _BASES
        while self._taken.setdefault(base, kind) != kind:
            base = (base + 1) % _BASES
        again = base * PERIOD + tf.math.floormod(count, PERIOD)
        first = tf.logical_and(count >= 0, count < FIRST)
        return tf.where(first, _IN_ORDER + count, again)
