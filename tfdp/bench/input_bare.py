"""The same work in plain tf.data, as one would write it by hand."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfdp.data.arrays import Arrays
from tfdp.data.sources.base import RowSource, Source, StreamSource

_OPEN_FILES = 8
_PREFETCH = 2


def bare_pipeline(
    examples: Arrays | Source, *, worker: int, workers: int, batch: int, shuffle_buffer: int
) -> tf.data.Dataset:
    """Shuffled, decoded and scaled batches of one worker's share.

    Args:
      examples: rows in memory, or a source, whose own way of decoding is used.
      worker: in `[0, workers)`.
      workers: how many share the examples.
      batch: rows in a batch of this worker.
      shuffle_buffer: serialized examples of a stream that are shuffled at a time; rows are
        shuffled all together.
    """
    if isinstance(examples, Arrays):
        dataset = _arrays(examples).shard(workers, worker).shuffle(examples.rows).batch(batch)
        decode: Any = lambda *columns: columns  # noqa: E731
    elif isinstance(examples, StreamSource):
        dataset = _records(examples, worker, workers).shuffle(shuffle_buffer).batch(batch)
        decode = lambda at, record: examples.read({**_numbered(at), "record": record})  # noqa: E731
    elif isinstance(examples, RowSource):
        numbers = tf.data.Dataset.range(examples.rows).shard(workers, worker)
        dataset = (
            numbers.shuffle(examples.rows)
            .map(lambda at: _one(examples, at), num_parallel_calls=tf.data.AUTOTUNE)
            .batch(batch)
        )
        decode = lambda *columns: columns  # noqa: E731
    else:
        raise TypeError(f"{type(examples).__name__} is no source")

    def finish(*parts: Any) -> Any:
        x, *rest = decode(*parts)
        return (tf.nest.map_structure(_scale, x), *rest)

    return dataset.map(finish, num_parallel_calls=tf.data.AUTOTUNE).prefetch(_PREFETCH)


def _arrays(examples: Arrays) -> tf.data.Dataset:
    columns: tuple[Any, ...] = (examples.x, examples.y)
    if examples.sample_weight is not None:
        columns = (*columns, examples.sample_weight)
    return tf.data.Dataset.from_tensor_slices(columns)


def _records(source: StreamSource, worker: int, workers: int) -> tf.data.Dataset:
    """Files are shared out where there are enough, else records."""
    by_file = source.segments >= workers
    segments = tf.data.Dataset.range(source.segments)
    if by_file:
        segments = segments.shard(workers, worker)
    records = segments.interleave(
        source.records, cycle_length=min(_OPEN_FILES, source.segments), block_length=16
    )
    return records if by_file else records.shard(workers, worker)


def _one(source: RowSource, at: tf.Tensor) -> Any:
    columns = source.read(_numbered(at[tf.newaxis]))
    return tf.nest.map_structure(lambda leaf: leaf[0], tuple(columns))


def _numbered(at: tf.Tensor) -> dict[str, tf.Tensor]:
    return {"at": at, "number": at, "epoch": tf.constant(0, tf.int64)}


def _scale(batch: tf.Tensor) -> tf.Tensor:
    if batch.dtype == tf.uint8 and batch.shape.rank in (3, 4):
        scaled = tf.cast(batch, keras.config.floatx()) / 255
        return scaled[..., tf.newaxis] if batch.shape.rank == 3 else scaled
    return tf.cast(batch, keras.config.floatx()) if batch.dtype.is_floating else batch
