"""A stream of numbers in files that do not exist, for tests of order and sharding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfdp.data.sources.base import StreamSource, Tickets


class NumberStream(StreamSource):
    """Examples 0, 1, 2, ..., `lengths[i]` of them in file i; the target is the number."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self._lengths = list(lengths)
        self.segments = len(self._lengths)

    @property
    def rows(self) -> int:
        return sum(self._lengths)

    def count(self, segment: int) -> int:
        return self._lengths[segment]

    def file_of(self, segment: int) -> str:
        return f"file {segment}"

    def records(self, segment: tf.Tensor) -> tf.data.Dataset:
        starts = tf.constant([sum(self._lengths[:i]) for i in range(self.segments)], tf.int64)
        lengths = tf.constant(self._lengths, tf.int64)
        start = starts[segment]
        numbers = tf.data.Dataset.range(start, start + lengths[segment])
        return numbers.map(lambda at: (at, tf.strings.as_string(at)))

    def read(self, tickets: Tickets) -> tuple[Any, ...]:
        numbers = tf.strings.to_number(tickets["record"], tf.int64)
        return tf.cast(numbers, tf.float32)[:, tf.newaxis], numbers

    def where(self, at: int) -> str:
        return f"number {at}"

    def fingerprint(self) -> int:
        return self.rows
