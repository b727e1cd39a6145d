"""Global batches of tickets, from any position of the endless series of sweeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdp.data.order import Order, Position, shuffled
from tfdp.data.sources.base import RowSource, Source, StreamSource, Tickets
from tfdp.data.split import cut_piece
from tfdp.errors import DataError

_ENDLESS = tf.int64.max
_WINDOWS = 2**32
"""More than a sweep has."""

_as_written = tf.autograph.experimental.do_not_convert
"""No function here has a Python branch on a tensor: converting them would only take time."""


def ticket_batches(
    source: Source,
    order: Order,
    position: Position,
    worker: int = 0,
    workers: int = 1,
    share_files: bool = True,
) -> tf.data.Dataset:
    """Batches of tickets of the epoch, and from the step, that `position` says.

    Args:
      source: the examples.
      order: how they become batches.
      position: read when a pass begins.
      worker: of `workers` that share the files of a stream, or have rows of their own.
      workers: 1 for the batches of all workers together.
      share_files: whether the files of a stream are shared; False: all are this worker's own.

    Returns:
      A data set of `Tickets`.

    Raises:
      DataError: with remainder "drop", fewer rows than a batch has.
    """
    if isinstance(source, RowSource):
        return _row_tickets(source.rows, order, position, (worker, workers))
    if isinstance(source, StreamSource):
        turn = (worker, workers) if share_files else (0, 1)
        dataset = _stream_tickets(source, order, position, _own_segments(source, *turn))
        if workers > 1 or order.remainder == "pad":
            dataset = dataset.map(_as_written(lambda t: adjusted(t, order, worker, workers)))
        return dataset
    raise TypeError(f"{type(source).__name__} is neither a RowSource nor a StreamSource")


def adjusted(tickets: Tickets, order: Order, worker: int, workers: int) -> Tickets:
    """A batch of tickets, padded if so ordered; those of different workers differ in number."""
    if workers > 1:
        tickets = {**tickets, "number": tickets["number"] * workers + worker}
    return _pad(tickets, order) if order.remainder == "pad" else tickets


def row_batch(rows: int, order: Order) -> Callable[[tf.Tensor, tf.Tensor], Tickets]:
    """The function from (epoch, step), two int64 scalars, to a batch of tickets of a row source.

    Raises:
      DataError: as `ticket_batches`.
    """
    per_sweep = order.steps_per_sweep(rows)
    check_one_batch(rows, order)
    steps = order.steps or per_sweep

    def batch(epoch: tf.Tensor, step: tf.Tensor) -> Tickets:
        number = epoch * steps + step
        sweep, slot = number // per_sweep, number % per_sweep
        at = tf.range(slot * order.batch, tf.minimum((slot + 1) * order.batch, rows))
        numbers = step * order.batch + tf.range(tf.size(at, tf.int64))
        if order.shuffle:
            at = shuffled(at, rows, order.seed, sweep)
        if order.remainder == "drop":
            at = tf.ensure_shape(at, [order.batch])
            numbers = tf.ensure_shape(numbers, [order.batch])
        return {"at": at, "number": numbers, "epoch": epoch}

    return batch


def row_piece(
    rows: int, order: Order, here: tuple[int, int], cut: tuple[int, int, int]
) -> Callable[[tf.Tensor], Tickets]:
    """The function from the number of a piece, see `Position.rest_of_epoch`, to its tickets.

    Args:
      rows: of a row source.
      order: how they become batches.
      here: `(worker, workers)` that have rows of their own; (0, 1) if none has.
      cut: `(worker, workers, replicas)` that share a batch.

    Raises:
      DataError: as `ticket_batches`.
    """
    batch = row_batch(rows, order)
    steps = order.steps or order.steps_per_sweep(rows)
    worker, workers, replicas = cut

    def piece(number: tf.Tensor) -> Tickets:
        step, local = number // replicas, number % replicas
        tickets: Tickets = adjusted(batch(step // steps, step % steps), order, *here)
        cut: Tickets = cut_piece(tickets, local * workers + worker, workers * replicas)
        return cut

    return piece


def _row_tickets(
    rows: int, order: Order, position: Position, here: tuple[int, int]
) -> tf.data.Dataset:
    steps = order.steps or order.steps_per_sweep(rows)
    tickets = row_piece(rows, order, here, (0, 1, 1))
    return position.rest_of_epoch(steps).map(_as_written(tickets))


def _stream_tickets(
    source: StreamSource, order: Order, position: Position, segments: list[int]
) -> tf.data.Dataset:
    per_sweep = None
    rows = sum(source.count(segment) for segment in segments)
    if order.steps is not None:
        check_one_batch(rows, order)
        per_sweep = order.steps_per_sweep(rows)

    def sweep_of(sweep: tf.Tensor) -> tf.data.Dataset:
        return _sweep(source, order, segments, rows, sweep)

    @_as_written
    def epoch_of(epoch: tf.Tensor, step: tf.Tensor) -> tf.data.Dataset:
        if per_sweep is None or order.steps is None:
            batches = sweep_of(epoch).skip(step)
        else:
            number = epoch * order.steps + step
            sweeps = tf.data.Dataset.range(number // per_sweep, _ENDLESS)
            batches = sweeps.flat_map(sweep_of).skip(number % per_sweep).take(order.steps - step)

        def ticket(slot: tf.Tensor, batch: tuple[tf.Tensor, tf.Tensor]) -> Tickets:
            at, record = batch
            numbers = (step + slot) * order.batch + tf.range(tf.size(at, tf.int64))
            if order.remainder == "drop":
                at = tf.ensure_shape(at, [order.batch])
                numbers = tf.ensure_shape(numbers, [order.batch])
            return {"at": at, "number": numbers, "epoch": epoch, "record": record}

        return batches.enumerate().map(ticket)

    return position.dataset().flat_map(epoch_of)


def _sweep(
    source: StreamSource, order: Order, segments: list[int], rows: int, sweep: tf.Tensor
) -> tf.data.Dataset:
    """Batches of `(at, record)` of one pass over all segments, which have `rows` records."""
    turn = tf.range(len(segments), dtype=tf.int64)
    if order.shuffle and segments:
        turn = shuffled(turn, len(segments), order.seed, sweep)
    turn = tf.gather(tf.constant(segments, tf.int64), turn)
    files = tf.data.Dataset.from_tensor_slices(turn)
    if order.shuffle:
        together = max(1, min(order.open_files, len(segments)))
        records = files.interleave(source.records, cycle_length=together, block_length=16)
    else:
        records = files.flat_map(source.records)
    windows = _complete(records.batch(order.shuffle_buffer if order.shuffle else order.batch), rows)
    if order.shuffle:
        windows = windows.enumerate().map(
            lambda window, several: _permuted(several, order.seed, sweep, window)
        )
    return windows.rebatch(order.batch, drop_remainder=order.remainder == "drop")


def _permuted(
    several: tuple[tf.Tensor, tf.Tensor], seed: int, sweep: tf.Tensor, window: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    """A window of records in another order; costs less than half of `Dataset.shuffle`."""
    count = tf.size(several[0], tf.int64)
    turn = shuffled(tf.range(count), count, seed, sweep * _WINDOWS + window + 1)
    return tuple(tf.gather(each, turn) for each in several)


def _complete(windows: tf.data.Dataset, rows: int) -> tf.data.Dataset:
    """The same windows, and an error after the last one if there were not `rows` records.

    A file that is cut within the framing of a record looks to TensorFlow as if it ended before.
    """
    end = (tf.constant([], tf.int64), tf.constant([], tf.string))

    def count(seen: tf.Tensor, window: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, Any]:
        here = tf.size(window[0], tf.int64)
        fine = tf.logical_or(here > 0, tf.equal(seen, rows))
        text = f"the files do not have the {rows} examples of the start any more"
        with tf.control_dependencies([tf.debugging.Assert(fine, [text])]):
            return seen + here, tuple(tf.identity(each) for each in window)

    counted = windows.concatenate(tf.data.Dataset.from_tensors(end)).scan(
        tf.constant(0, tf.int64), count
    )
    return counted.filter(lambda at, record: tf.size(at) > 0)


def own_batch(batch: int, worker: int, workers: int) -> int:
    """One worker's part of a global batch, where each has examples of its own."""
    return batch // workers + (worker < batch % workers)


def own_rows(source: Source, worker: int, workers: int) -> int:
    """How many examples are a worker's own, where the workers share the files of a stream."""
    if not isinstance(source, StreamSource):
        return source.rows
    return sum(source.count(segment) for segment in _own_segments(source, worker, workers))


def check_one_batch(rows: int, order: Order) -> None:
    """Raises a `DataError` where dropping the remainder would drop everything."""
    if order.remainder == "drop" and rows < order.batch:
        raise DataError(
            f"data.remainder: drop leaves nothing of {rows} examples, as a batch has "
            f"{order.batch}.",
            hint="Set data.remainder: exact, or a smaller data.global_batch.",
        )


def _own_segments(source: StreamSource, worker: int, workers: int) -> list[int]:
    """The segments of the files that fall to a worker, whole files in turn."""
    files: dict[str, int] = {}
    for segment in range(source.segments):
        files.setdefault(source.file_of(segment), len(files))
    return [s for s in range(source.segments) if files[source.file_of(s)] % workers == worker]


def _pad(tickets: Tickets, order: Order) -> Tickets:
    """Fills a batch up with its first example, at weight 0.

    The others weigh so much more that a mean over the full batch is the mean over them.
    """
    found = tf.size(tickets["at"])
    there = tf.range(order.batch) < found
    source = tf.where(there, tf.range(order.batch), 0)
    scale = tf.cast(order.batch, tf.float32) / tf.cast(found, tf.float32)
    padded = {
        name: value if value.shape.rank == 0 else tf.gather(value, source)
        for name, value in tickets.items()
    }
    return {**padded, "weight": tf.where(there, scale, 0.0)}
