"""Global batches of a source, in an order that depends on nothing but the seed and the epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import tensorflow as tf

from tfdp.data.arrays import Arrays
from tfdp.data.finish import Finish, Transform
from tfdp.data.order import Order, Position
from tfdp.data.policy import Policy, choose_policy
from tfdp.data.service import Service
from tfdp.data.sources.arrays import ArraySource
from tfdp.data.sources.base import RowSource, Source, Tickets
from tfdp.data.split import cut_piece, shard_batches
from tfdp.data.tickets import own_batch, own_rows, row_piece, ticket_batches
from tfdp.errors import TfdpError

DEFAULT_PREFETCH = 2


Pieces: TypeAlias = tuple[tf.data.Dataset, Callable[[tf.Tensor], Tickets]]
"""A data set of numbers, and what makes the tickets of a piece from one of them."""


@dataclass(frozen=True)
class Workload:
    """Batches whose expensive part is still to be done: `dataset.tfdp_workload` of `EpochBatches`.

    A strategy cuts the tickets into the pieces of its replicas, and only then has them finished.

    Attributes:
      tickets: `tickets(worker, workers)`: the batches of tickets of one of several workers that
        have examples of their own; (0, 1): the global batches.
      length: `length(worker, workers)`: how many batches those are in a whole epoch.
      finish: from the tickets of a piece to its examples.
      policy: how workers share the reading.
      fingerprint: of the examples, which the workers compare.
      parallel_calls: pieces that are finished at a time; None: as many as there are cores.
      prefetch: finished pieces that wait, for each replica.
      elsewhere: `elsewhere(worker, workers, replicas)`: finished pieces of a worker's replicas,
        where other processes do the work; None: this process does.
      pieces: `pieces(worker, workers, replicas)`: what the tickets of a worker's replicas are made
        from, where they can be made one by one; None: they cannot.
    """

    tickets: Callable[[int, int], tf.data.Dataset]
    length: Callable[[int, int], int]
    finish: Callable[[Any], tuple[Any, ...]]
    policy: Policy
    fingerprint: Callable[[], int]
    parallel_calls: int | None = None
    prefetch: int = DEFAULT_PREFETCH
    elsewhere: Callable[[int, int, int], tf.data.Dataset] | None = None
    pieces: Callable[[int, int, int], Pieces] | None = None

    def share(
        self,
        worker: int,
        workers: int,
        replicas: int,
        watch: Callable[[tf.data.Dataset], tf.data.Dataset] | None = None,
    ) -> tf.data.Dataset:
        """The finished pieces of one worker's replicas, as `tfdp.data.split.shard_batches`.

        Args:
          worker: in `[0, workers)`.
          workers: number of workers.
          replicas: of this worker.
          watch: applied to the batches of tickets, or None.
        """
        if self.elsewhere is not None:
            pieces = self.elsewhere(worker, workers, replicas)
            return pieces.prefetch(self.prefetch * replicas) if self.prefetch else pieces
        if watch is None and self.pieces is not None:
            return self.finished(*self.pieces(worker, workers, replicas), replicas)
        if self.policy.own:
            tickets, worker, workers = self.tickets(worker, workers), 0, 1
        else:
            tickets = self.tickets(0, 1)
        if watch is not None:
            tickets = watch(tickets)
        if replicas == 1:
            return self.finished(tickets, lambda batch: cut_piece(batch, worker, workers))
        tickets = shard_batches(tickets, worker, workers, replicas)
        return self.finished(tickets, replicas=replicas)

    def finished(
        self,
        tickets: tf.data.Dataset,
        piece: Callable[[Any], Any] = lambda tickets: tickets,
        replicas: int = 1,
    ) -> tf.data.Dataset:
        """`tickets` with the expensive part done, in the same order.

        Args:
          tickets: what `piece` makes the tickets of a piece from.
          piece: done together with the expensive part: each step of its own would cost.
          replicas: that take the pieces.
        """
        calls = self.parallel_calls or tf.data.AUTOTUNE
        with _errors_as_raised(lambda part: self.finish(piece(part))) as finish:
            dataset = tickets.map(finish, num_parallel_calls=calls, deterministic=True)
        if self.prefetch:
            dataset = dataset.prefetch(self.prefetch * replicas)
        # Without tuning, parallel calls are as many as there are cores. The thread that tunes can
        # miss that an epoch has ended, and the epoch then waits for its next round, seconds later.
        options = tf.data.Options()
        options.autotune.enabled = False
        return dataset.with_options(options)


@contextmanager
def _errors_as_raised(function: Callable[[Any], Any]) -> Iterator[Callable[[Any], Any]]:
    """Gives `function`, whose own errors leave the block as they were raised.

    tf.data puts what goes wrong while it traces a function into an error of AutoGraph.
    """
    raised: list[TfdpError] = []

    @tf.autograph.experimental.do_not_convert
    def watched(argument: Any) -> Any:
        try:
            return function(argument)
        except TfdpError as error:
            raised.append(error)
            raise

    try:
        yield watched
    except Exception:
        if raised:
            raise raised[0] from None
        raise


class EpochBatches:
    """The global batches of one epoch after the other.

    Args:
      source: the examples, arrays or a `Source`.
      global_batch: rows in a batch, all replicas together; the last batch of a sweep may have
        fewer.
      seed: of the order; not used without `shuffle`.
      shuffle: whether each sweep has an order of its own.
      steps: batches in an epoch; None for one sweep.
      remainder: the last batch of a sweep: "exact": has the rows that are left; "drop": is left
        out; "pad": is filled up with rows of weight 0.
      shuffle_buffer: serialized examples of a stream that are shuffled at a time.
      shard: how workers share the reading, see `choose_policy`.
      transform: changes each example, see `tfdp.data.finish.Transform`.
      parallel_calls: pieces that are finished at a time; None: as many as there are cores.
      prefetch: finished batches that wait.
      service: address of a tf.data service whose workers finish the batches, or None.

    Attributes:
      dataset: a tf.data.Dataset of `(x, y)` or `(x, y, sample_weight)`. Iterating it gives the
        batches from the position that was set last to the end of its epoch. It carries
        `tfdp_workload`, from which the strategies of tfdp share the work out before it is done;
        everybody else sees finished batches.
      source: the examples.
      policy: how workers share the reading, and why.
      steps: batches in an epoch; None where only the end will tell.

    Raises:
      DataError: nothing is left after dropping the remainder, or the policy cannot be had.
    """

    def __init__(
        self,
        source: Arrays | Source,
        *,
        global_batch: int,
        seed: int = 0,
        shuffle: bool = True,
        steps: int | None = None,
        remainder: str = "exact",
        shuffle_buffer: int = 10_000,
        shard: str = "auto",
        transform: Transform | None = None,
        parallel_calls: int | None = None,
        prefetch: int = DEFAULT_PREFETCH,
        service: str | None = None,
    ) -> None:
        self.source = ArraySource(source) if isinstance(source, Arrays) else source
        self.policy = choose_policy(self.source, shard)
        self.position = Position()
        self._order = Order(
            batch=global_batch,
            seed=seed,
            shuffle=shuffle,
            steps=steps,
            remainder=remainder,
            shuffle_buffer=shuffle_buffer,
        )
        self._finish = Finish(self.source, seed, transform)
        self._workload = Workload(
            tickets=self._tickets,
            length=self._length,
            finish=self._finish,
            policy=self.policy,
            fingerprint=self.source.fingerprint,
            parallel_calls=parallel_calls,
            prefetch=prefetch,
            elsewhere=None if service is None else self._elsewhere(service),
            pieces=self._pieces if isinstance(self.source, RowSource) else None,
        )
        self.dataset: tf.data.Dataset = self._build()

    @cached_property
    def steps(self) -> int | None:
        if self._order.steps is not None:
            return self._order.steps
        return None if self.policy.own else self.steps_per_sweep

    @cached_property
    def steps_per_sweep(self) -> int:
        """Batches in one sweep over the examples, if one worker has them all."""
        return self._order.steps_per_sweep(self.source.rows)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch, from 0, whose batches the next iteration gives.

        It begins at its first step, unless `set_position` has chosen a step of this very epoch.
        """
        if epoch != self.position.epoch:
            self.position.set(epoch, 0)

    def set_position(self, epoch: int, step: int) -> None:
        """Chooses where the next iteration begins.

        Args:
          epoch: from 0.
          step: of the epoch, from 0; at most `steps`. The batches before it are not read (of a
            stream: not parsed).
        """
        self.position.set(epoch, step)

    def rows_in_step(self, step: int) -> int:
        """Rows of step number `step`, from 0, of the epoch that was set last."""
        rows, per_sweep = self._rows, self.steps_per_sweep
        if self.policy.own or self._order.remainder == "drop":
            return self._order.batch
        slot = (self.position.epoch * (self.steps or per_sweep) + step) % per_sweep
        return min(self._order.batch, rows - slot * self._order.batch)

    @cached_property
    def _rows(self) -> int:
        return self.source.rows

    def _length(self, worker: int, workers: int) -> int:
        """Batches in an epoch of one of several workers that have examples of their own."""
        order = self._own_order(worker, workers)
        rows = own_rows(self.source, *self._file_turn(worker, workers))
        return order.steps or order.steps_per_sweep(rows)

    def _own_order(self, worker: int, workers: int) -> Order:
        return replace(self._order, batch=own_batch(self._order.batch, worker, workers))

    def _tickets(self, worker: int, workers: int) -> tf.data.Dataset:
        order = self._own_order(worker, workers)
        share = self.policy.name == "file"
        return ticket_batches(self.source, order, self.position, worker, workers, share)

    def _file_turn(self, worker: int, workers: int) -> tuple[int, int]:
        """Where the workers do not share files, a worker's files are all its own."""
        return (worker, workers) if self.policy.name == "file" else (0, 1)

    def _pieces(self, worker: int, workers: int, replicas: int) -> Pieces:
        order, here, cut = self._places(worker, workers, replicas)
        steps = order.steps or order.steps_per_sweep(self._rows)
        numbers = self.position.rest_of_epoch(steps, replicas)
        return numbers, row_piece(self._rows, order, here, cut)

    def _places(
        self, worker: int, workers: int, replicas: int
    ) -> tuple[Order, tuple[int, int], tuple[int, int, int]]:
        """The order, who has rows of their own, and who share a batch, of one worker's replicas."""
        if self.policy.own:
            return self._own_order(worker, workers), (worker, workers), (0, 1, replicas)
        return self._order, (0, 1), (worker, workers, replicas)

    def _elsewhere(self, address: str) -> Callable[[int, int, int], tf.data.Dataset]:
        served = Service(address, self.source)

        def pieces(worker: int, workers: int, replicas: int) -> tf.data.Dataset:
            order, here, cut = self._places(worker, workers, replicas)
            return served.pieces(order, self.position, self._finish, here, cut)

        return pieces

    def _build(self) -> tf.data.Dataset:
        dataset = self._workload.share(0, 1, 1)
        # Keras asks for the length. It is that of a whole epoch, also for a pass that begins in the
        # middle: an assertion inside tf.data would not let such a pass end.
        length = tf.constant(self._length(0, 1), tf.int64)
        dataset.cardinality = lambda: length
        dataset.tfdp_workload = self._workload
        return dataset
