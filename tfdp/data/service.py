"""The expensive part of the input in other processes: a tf.data service.

A service hands pieces of work to its workers as they come, and their results arrive in any order;
if a worker dies, what it was at is lost. Neither changes what is trained. Each result carries its
number, is put back in its place here, and what does not arrive is done here. So order and position
are those of a run without a service, and every example comes once.

Only rows that can be read in any order move: the workers of the service are sent the numbers of
the rows, and make the tickets themselves.
"""

from __future__ import annotations

import logging
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from tfdp.data.failures import explain
from tfdp.data.order import Order, Position
from tfdp.data.sources.base import Source
from tfdp.data.tickets import row_piece
from tfdp.errors import DataError

_log = logging.getLogger("tfdp.data")

_CONNECT_SECONDS = 5.0
FIRST_PIECE_SECONDS = 120.0
_WAITING_PIECES = 256
"""So many later pieces have come: a piece that has not is done here."""


class Service:
    """Rows that are read and decoded by the workers of a tf.data service.

    Args:
      address: ``grpc://host:port`` of its dispatcher.
      source: the examples; its files have to be where the service's workers find them.

    Raises:
      DataError: the source cannot move, or nobody answers at the address.
    """

    def __init__(self, address: str, source: Source) -> None:
        if source.stays:
            raise DataError(
                f"data.service: {source.place} cannot be read by a service: {source.stays}.",
                hint="Leave data.service (of a launch: --data-workers) out, or name pictures in "
                "folders or arrays.",
            )
        error = unreachable(address)
        if error is not None:
            raise DataError(
                f"data.service: nobody answers at {address}: {error}.",
                hint="Start the dispatcher and its workers first (tfdp data serve).",
            ) from error
        self._address = address
        self._source = source

    def pieces(
        self,
        order: Order,
        position: Position,
        finish: Callable[[Any], tuple[Any, ...]],
        here: tuple[int, int],
        cut: tuple[int, int, int],
    ) -> tf.data.Dataset:
        """The finished pieces of a worker's replicas, in their order.

        Args:
          order: how rows become batches.
          position: where a pass begins.
          finish: from tickets to examples.
          here: `(worker, workers)` that have rows of their own; (0, 1) if none has.
          cut: `(worker, workers, replicas)` that share a batch.
        """
        rows = self._source.rows
        tickets_of = row_piece(rows, order, here, cut)
        steps = order.steps or order.steps_per_sweep(rows)
        replicas = cut[2]

        def epoch_from(epoch: int, first: int) -> tf.data.Dataset:
            before = tf.constant(epoch * steps * replicas, tf.int64)
            numbers = tf.data.Dataset.range(first * replicas, steps * replicas)
            return numbers.map(
                tf.autograph.experimental.do_not_convert(
                    lambda number: (number, finish(tickets_of(before + number)))
                ),
                num_parallel_calls=tf.data.AUTOTUNE,
            )

        def generate() -> Iterator[Any]:
            first = position.step
            whole = epoch_from(position.epoch, first)
            yield from self._in_order(whole, range(first * replicas, steps * replicas))

        return tf.data.Dataset.from_generator(
            generate, output_signature=epoch_from(0, 0).element_spec[1]
        )

    def _in_order(self, whole: tf.data.Dataset, numbers: range) -> Iterator[Any]:
        """What `whole` gives, in the order of the numbers, whoever has done it."""
        arrived: dict[int, Any] = {}
        results = self._results(whole)
        for number in numbers:
            while number not in arrived and len(arrived) < _WAITING_PIECES:
                found = next(results, None)
                if found is None:
                    break
                if int(found[0]) >= number:
                    arrived[int(found[0])] = found[1]
            if number not in arrived:
                _log.warning("data.service lost piece %d of an epoch: it is done here", number)
                ((_, arrived[number]),) = whole.skip(number - numbers.start).take(1)
            yield arrived.pop(number)

    def _results(self, whole: tf.data.Dataset) -> Iterator[Any]:
        moved = whole.apply(
            tf.data.experimental.service.distribute(
                processing_mode=tf.data.experimental.service.ShardingPolicy.DYNAMIC,
                service=self._address,
                compression=None,
            )
        )
        results = iter(moved)
        try:
            yield _first(results, self._address)
        except StopIteration:
            return
        except tf.errors.OpError as error:
            raise self._explained(error) from error
        try:
            yield from results
        except tf.errors.OpError as error:
            raise self._explained(error) from error

    def _explained(self, error: tf.errors.OpError) -> DataError:
        return explain(error, self._source) or DataError(
            f"data.service: {str(error.message).splitlines()[0]}"
        )


def unreachable(address: str) -> OSError | None:
    """Why nobody answers at ``grpc://host:port``, or None if somebody does."""
    host, _, port = address.removeprefix("grpc://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        return error
    return None


def _first(results: Iterator[Any], address: str) -> Any:
    """The first result, or a `DataError` if none comes in time.

    Without workers TensorFlow waits for ever; the thread that does so does not keep the process.
    """
    found: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def wait() -> None:
        try:
            found.put((next(results), None))
        except BaseException as error:
            found.put((None, error))

    threading.Thread(target=wait, name="tfdp-service", daemon=True).start()
    try:
        result, error = found.get(timeout=FIRST_PIECE_SECONDS)
    except queue.Empty:
        raise DataError(
            f"data.service: no worker of {address} has sent anything for "
            f"{FIRST_PIECE_SECONDS:.0f} seconds.",
            hint="Start workers of the service.",
        ) from None
    if error is not None:
        raise error
    return result
