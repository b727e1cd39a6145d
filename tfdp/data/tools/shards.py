"""TFRecord shards: which rows are in each, and how one is written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tensorflow as tf

from tfdp.data.arrays import Arrays
from tfdp.data.sources.arrays import ArraySource
from tfdp.data.sources.base import RowSource, Source, StreamSource
from tfdp.data.tools.encoding import Schema, serialize
from tfdp.errors import DataError, RunError

_BATCH = 256
_SHUTTLE = 2**20
PARTIAL = ".partial"


@dataclass(frozen=True)
class Shard:
    """One file: the rows from `first` up to, not including, `end`."""

    number: int
    of: int
    first: int
    end: int

    @property
    def name(self) -> str:
        return f"part-{self.number:05}-of-{self.of:05}.tfrecord"


@dataclass(frozen=True)
class Written:
    """What is known of a finished shard."""

    rows: int
    bytes: int
    sha256: str


def plan_shards(rows: int, shards: int) -> list[Shard]:
    """Contiguous ranges whose lengths differ by at most one, in the order of the rows."""
    bounds = [number * rows // shards for number in range(shards + 1)]
    return [Shard(number, shards, *bounds[number : number + 2]) for number in range(shards)]


def source_of(examples: Arrays | Source) -> Source:
    """The source of examples that can be read from any row on."""
    return ArraySource(examples) if isinstance(examples, Arrays) else examples


def batches_of(source: Source, first: int, end: int) -> tf.data.Dataset:
    """Rows `[first, end)` in their order, as `source.read` gives them."""
    if isinstance(source, RowSource):
        tickets = tf.data.Dataset.range(first, end).batch(_BATCH).map(_row_tickets)
    elif isinstance(source, StreamSource):
        tickets = _stream_tickets(source, first, end)
    else:
        raise TypeError(f"{type(source).__name__} is neither a RowSource nor a StreamSource")
    return tickets.map(source.read, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def write_shard(
    source: Source, schema: Schema, shard: Shard, folder: Path, tick: Callable[[int], None]
) -> Written:
    """Writes the shard's rows of a source.

    Raises:
      RunError, DataError: see `store`; or an example cannot be read.
    """
    return store(shard, folder, _records(source, schema, shard, tick), source.place)


def store(shard: Shard, folder: Path, records: Iterable[bytes], place: str) -> Written:
    """Writes a shard under another name, and gives it its own when it is complete.

    Args:
      shard: which.
      folder: of the shards.
      records: all serialized examples of the shard.
      place: what to call the examples in messages.

    Raises:
      RunError: the disk is full, or fails in another way; nothing half written is left.
      DataError: there are not as many records as the shard has rows.
    """
    path = folder / shard.name
    temporary = folder / f".{shard.name}.{os.getpid()}{PARTIAL}"
    try:
        rows = _write(temporary, records, path)
        if rows != shard.end - shard.first:
            raise DataError(
                f"{place}: rows {shard.first} to {shard.end - 1} were asked for, and "
                f"{rows} came: the data have changed."
            )
        written = Written(rows, temporary.stat().st_size, digest_of(temporary))
        os.replace(temporary, path)
        return written
    except OSError as error:
        raise _disk(path, error.strerror or str(error)) from error
    finally:
        temporary.unlink(missing_ok=True)


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_SHUTTLE):
            digest.update(block)
    return digest.hexdigest()


def _write(temporary: Path, records: Iterable[bytes], path: Path) -> int:
    rows = 0
    writer = tf.io.TFRecordWriter(str(temporary))
    try:
        for record in records:
            _checked(partial(writer.write, record), path)
            rows += 1
        _checked(writer.flush, path)
    finally:
        _close(writer)
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    return rows


def _checked(action: Callable[[], None], path: Path) -> None:
    """TensorFlow's errors about the disk are of many kinds, and none is an OSError."""
    try:
        action()
    except tf.errors.OpError as error:
        raise _disk(path, str(error.message).split("\n")[0]) from error


def _close(writer: tf.io.TFRecordWriter) -> None:
    try:
        writer.close()
    except tf.errors.OpError:
        return  # flush has failed, and has been reported


def _disk(path: Path, reason: str) -> RunError:
    return RunError(
        f"{path}: cannot be written: {reason}.",
        hint="Finished shards are kept. Make room or change the permissions, then start the same "
        "command again: it goes on from there.",
    )


def _records(
    source: Source, schema: Schema, shard: Shard, tick: Callable[[int], None]
) -> Iterator[bytes]:
    try:
        for columns in batches_of(source, shard.first, shard.end).as_numpy_iterator():
            records = list(serialize(schema, columns))
            yield from records
            tick(len(records))
    except tf.errors.OpError as error:
        raise DataError(
            f"{source.place}: rows {shard.first} to {shard.end - 1} cannot be read: "
            f"{str(error.message).strip().splitlines()[0]}",
            hint="data.on_error: skip leaves out what cannot be read.",
        ) from error


def _row_tickets(at: tf.Tensor) -> dict[str, tf.Tensor]:
    return {"at": at, "number": at, "epoch": tf.constant(0, tf.int64)}


def _stream_tickets(source: StreamSource, first: int, end: int) -> tf.data.Dataset:
    """Tickets of some rows, reading no more segments than they are in."""
    wanted: list[tuple[int, int, int]] = []
    begin = 0
    for segment in range(source.segments):
        count = source.count(segment)
        skip, stop = max(first - begin, 0), min(end - begin, count)
        if skip < stop:
            wanted.append((segment, skip, stop - skip))
        begin += count

    def of_segment(segment: tf.Tensor, skip: tf.Tensor, take: tf.Tensor) -> tf.data.Dataset:
        return source.records(segment).skip(skip).take(take)

    columns = tuple(tf.constant([each[i] for each in wanted], tf.int64) for i in range(3))
    records = tf.data.Dataset.from_tensor_slices(columns).flat_map(of_segment).batch(_BATCH)
    return records.map(lambda at, record: {**_row_tickets(at), "record": record})
