"""A tf.data.Dataset of the user's on its way to shards.

It can only be read from its beginning, and nothing says that it gives the same examples twice. So
it is read once to count and to take a digest, and then, made anew from the same seeds, to write:
if the second pass gives something else, nothing of it is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import tensorflow as tf

from tfdp.data.checking import brief_reason
from tfdp.data.tools.encoding import Schema, schema_of, serialize
from tfdp.data.tools.journal import Journal
from tfdp.data.tools.shards import Shard, Written, store
from tfdp.data.tools.subject import Subject
from tfdp.errors import DataError

_DIGITS = 16


@dataclass(frozen=True)
class Content:
    """What a pass over a data set gave.

    Attributes:
      rows: examples, at least one.
      digest: of the serialized examples in their order, in hexadecimal.
    """

    rows: int
    digest: str


class DatasetExamples:
    """The examples of a data set, serialized.

    Args:
      dataset: of batches `(x, y)` or `(x, y, sample_weight)`.
      place: what to call it in messages.

    Raises:
      DataError: it never ends, or its examples cannot be stored.
    """

    def __init__(self, dataset: tf.data.Dataset, place: str) -> None:
        if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise DataError(
                f"{place}: the tf.data.Dataset never ends, and cannot be converted.",
                hint="Leave repeat() out of the function, or end with take(batches).",
            )
        self.schema: Schema = schema_of(dataset.element_spec, place)
        self._dataset = dataset
        self._place = place

    def records(self) -> Iterator[bytes]:
        """One pass.

        Raises:
          DataError: a batch cannot be made.
        """
        try:
            for columns in self._dataset.as_numpy_iterator():
                yield from serialize(self.schema, columns)
        except tf.errors.OpError as error:
            reason = brief_reason(str(error.message))
            raise DataError(f"{self._place}: a batch cannot be made: {reason}.") from error

    def look_through(self, tick: Callable[[int], None]) -> Content:
        """Counts them, and takes their digest.

        Args:
          tick: progress in examples.

        Raises:
          DataError: there are none, or as `records`.
        """
        digest = Digest(self.records(), tick)
        for _ in digest:
            pass
        if not digest.content.rows:
            raise DataError(f"{self._place}: there are no examples.")
        return digest.content


class Digest:
    """Hands records on, and says what they were.

    Args:
      records: of a data set.
      tick: progress in examples.
    """

    def __init__(self, records: Iterator[bytes], tick: Callable[[int], None]) -> None:
        self._records = records
        self._tick = tick
        self._rows = 0
        self._digest = hashlib.sha256()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        record = next(self._records)
        self._rows += 1
        self._digest.update(len(record).to_bytes(8, "little") + record)
        self._tick(1)
        return record

    @property
    def content(self) -> Content:
        """Of what was handed on so far."""
        return Content(self._rows, self._digest.hexdigest()[:_DIGITS])


def write_in_order(
    examples: DatasetExamples,
    expected: Content,
    shards: list[Shard],
    folder: Path,
    journal: Journal,
    tick: Callable[[int], None],
) -> None:
    """Writes the shards that are not finished, in one pass over all examples.

    Args:
      examples: made anew.
      expected: what the first pass has given.
      shards: all there will be.
      folder: of the shards.
      journal: knows the finished ones.
      tick: progress in examples.

    Raises:
      RunError: the disk is full, or fails in another way.
      DataError: the pass does not give what the first one gave; nothing written is kept.
    """
    passed = Digest(examples.records(), tick)
    for shard in shards:
        rows = islice(passed, shard.end - shard.first)
        if shard.number in journal.finished:
            for _ in rows:
                pass
            continue
        try:
            written: Written = store(shard, folder, rows, "the tf.data.Dataset")
        except DataError:
            journal.abandon()
            raise
        journal.add(shard, written)
    for _ in passed:
        pass  # more than the first time: the digest tells
    if passed.content != expected:
        journal.abandon()
        raise DataError(
            "data.function: the tf.data.Dataset gave other examples when it was read again, and "
            "what was written of it is removed.",
            hint="Give shuffle and random operations a seed, and take out what depends on the "
            "time, or on who is faster (deterministic=False).",
        )


def place_of(subject: Subject) -> str:
    """What to call the data set in messages."""
    return f"data.function: {subject.data.function}"
