"""Numbers that tell examples apart: by place, without reading them, or by content."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any
from zlib import crc32

import numpy as np
import tensorflow as tf

from tfdp.data.sources.base import RowSource, Source, StreamSource

PLACE = "place"
CONTENT = "content"

_BATCH = 1024
_PLACE_BITS = 40
_HASHES = 2**62


class Identities:
    """The identity, an int64, of every example of one worker's source.

    Args:
      source: the examples.
      by: PLACE: the row, or the file and the place in it. CONTENT: a hash of the row or of the
        serialized example, so that equal examples have one identity.
    """

    def __init__(self, source: Source, by: str) -> None:
        self._source = source
        self._by = by

    def of_tickets(self, tickets: dict[str, tf.Tensor]) -> tf.Tensor:
        """`(n,)` int64; called while a tf.data function is traced."""
        if self._by == CONTENT:
            if "record" in tickets:
                return tf.strings.to_hash_bucket_fast(tickets["record"], _HASHES)
            columns = tf.nest.flatten(self._source.read(tickets))
            hashed: tf.Tensor = tf.numpy_function(_hash_columns, columns, tf.int64, stateful=False)
            return tf.ensure_shape(hashed, [None])
        return tickets["at"]

    def between_workers(self, at: np.ndarray) -> np.ndarray:
        """Identities that can be compared with those of a worker which has other files."""
        files = getattr(self._source, "files", None)
        if self._by == CONTENT or not files or isinstance(self._source, RowSource):
            return at
        known = [crc32(os.path.realpath(file).encode()) & 0x3FFFFF for file in files]
        place = at & ((1 << _PLACE_BITS) - 1)
        high = np.asarray(known, np.int64)[at >> _PLACE_BITS]
        return (high << _PLACE_BITS) | place

    def of_all(self) -> np.ndarray:
        """Every example once, in its order; found without the pipeline that is audited."""
        if isinstance(self._source, StreamSource):
            parts = [self._of_segment(segment) for segment in range(self._source.segments)]
            return np.concatenate(parts)
        rows = self._source.rows
        assert rows is not None, "a row source knows its rows"
        if self._by == PLACE:
            return np.arange(rows, dtype=np.int64)
        tickets = tf.data.Dataset.range(rows).batch(_BATCH).map(_row_tickets)
        hashed = tickets.map(self.of_tickets).as_numpy_iterator()
        return np.concatenate(list(hashed))

    def _of_segment(self, segment: int) -> np.ndarray:
        source = self._source
        assert isinstance(source, StreamSource)
        records = source.records(tf.constant(segment, tf.int64)).batch(_BATCH)
        found = records.map(lambda at, record: self.of_tickets({"at": at, "record": record}))
        return np.concatenate([np.zeros(0, np.int64), *found.as_numpy_iterator()])


def row_hashes(batch: Any) -> np.ndarray:
    """A hash of each row of a batch of anything that `tf.data` can give; `(rows,)` int64."""
    columns: list[Any] = []
    for leaf in tf.nest.flatten(batch):
        if isinstance(leaf, tf.SparseTensor):
            leaf = tf.sparse.to_dense(leaf)
        if isinstance(leaf, tf.RaggedTensor):
            columns.append([row.numpy() for row in leaf])
        else:
            columns.append(np.asarray(leaf))
    return _hash_columns(*columns)


def _hash_columns(*columns: Any) -> np.ndarray:
    rows = [_hash(row) for row in _rows(columns)]
    return np.asarray(rows, np.int64)


def _rows(columns: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    with_rows = [column for column in columns if np.ndim(column) or isinstance(column, list)]
    return zip(*with_rows, strict=True)


def _hash(row: tuple[Any, ...]) -> int:
    digest = blake2b(digest_size=8)
    for value in row:
        array = np.asarray(value)
        digest.update(f"{array.shape}{array.dtype}".encode())
        if array.dtype == object:
            digest.update(b"\0".join(bytes(each) for each in array.ravel()))
        else:
            digest.update(np.ascontiguousarray(array).tobytes())
    return int.from_bytes(digest.digest(), "little") >> 2


def _row_tickets(at: tf.Tensor) -> dict[str, tf.Tensor]:
    return {"at": at, "number": at, "epoch": tf.constant(0, tf.int64)}
