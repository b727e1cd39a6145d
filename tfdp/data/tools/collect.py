"""What each replica of one worker would train on, found by running the pipeline up to there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from tfdp.data.batches import EpochBatches
from tfdp.data.examples import Examples
from tfdp.data.pipeline import training_batches, validation_batches
from tfdp.data.policy import Policy
from tfdp.data.split import count_rows, shard_batches
from tfdp.data.tools.identities import CONTENT, PLACE, Identities, row_hashes
from tfdp.data.tools.subject import Subject
from tfdp.errors import DataError

Tick = Callable[[int], None]
"""Called with the number of examples that were looked at since the last call."""

_PIECES = 64


@dataclass(frozen=True)
class Share:
    """What one replica gets in one epoch.

    Attributes:
      worker: its worker.
      replica: its number within the worker.
      epoch: from 0.
      ids: identities of its examples, in their order.
      sizes: examples in each of its batches.
      padding: rows of weight 0 that fill batches up.
    """

    worker: int
    replica: int
    epoch: int
    ids: np.ndarray
    sizes: np.ndarray
    padding: int = 0


@dataclass(frozen=True)
class Place:
    """A worker among workers, each with as many replicas."""

    worker: int = 0
    workers: int = 1
    replicas: int = 1


@dataclass(frozen=True)
class Findings:
    """One worker's part of an audit.

    Attributes:
      place: which worker.
      policy: how the workers share the reading.
      by: what tells examples apart, PLACE or CONTENT.
      shares: of each replica and epoch.
      sweep: identities of all examples that this worker reads in one sweep; None for a data set
        of the user's, of which only its epochs are known.
    """

    place: Place
    policy: Policy
    by: str
    shares: tuple[Share, ...]
    sweep: np.ndarray | None


def collect(
    subject: Subject,
    examples: Examples,
    part: str,
    place: Place,
    *,
    epochs: int,
    by: str | None = None,
    tick: Tick,
) -> Findings:
    """Runs one worker's pipeline, as far as examples can be told apart.

    Args:
      subject: where the examples are from.
      examples: as this worker has loaded them.
      part: "train" or "validation".
      place: which worker.
      epochs: how many to look at, from the first.
      by: what tells examples apart; None: what fits the source.
      tick: progress.

    Raises:
      ConfigError, DataError: they cannot be read, or never end.
    """
    if isinstance(examples, tf.data.Dataset):
        return _of_dataset(subject, examples, place, epochs, tick)
    return _of_source(subject, examples, part, place, epochs, by, tick)


def _of_source(
    subject: Subject,
    examples: Any,
    part: str,
    place: Place,
    epochs: int,
    by: str | None,
    tick: Tick,
) -> Findings:
    batches = _batches(subject, examples, part)
    by = by or _fitting(subject, batches)
    identities = Identities(batches.source, by)

    def identified(tickets: Any) -> tuple[Any, ...]:
        ids = identities.of_tickets(tickets)
        return ids, tickets.get("weight", tf.ones_like(ids, tf.float32))

    workload = replace(batches.dataset.tfdp_workload, finish=identified)
    pieces = workload.share(place.worker, place.workers, place.replicas)
    shares: list[Share] = []
    for epoch in range(epochs):
        batches.set_position(epoch, 0)
        shares += _deal(_in_chunks(pieces), place, epoch, tick)
    sweep = identities.of_all()
    if batches.policy.name == "off":
        sweep = identities.between_workers(sweep)
        shares = [replace(each, ids=identities.between_workers(each.ids)) for each in shares]
    return Findings(place, batches.policy, by, tuple(shares), sweep)


def _batches(subject: Subject, examples: Any, part: str) -> EpochBatches:
    if part == "train":
        return training_batches(
            subject.data, examples, directory=subject.directory, steps=subject.steps
        )
    return validation_batches(subject.data, examples)


def _fitting(subject: Subject, batches: EpochBatches) -> str:
    """Rows of one array or file have numbers; what each worker loads for itself has not."""
    if subject.data.function is not None or batches.policy.name == "off":
        return CONTENT
    return PLACE


def _in_chunks(pieces: tf.data.Dataset) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """`(ids, weights)` of piece after piece; fetching many at a time is faster."""
    for ids, weights in pieces.ragged_batch(_PIECES):
        if isinstance(ids, tf.Tensor):  # all of one size
            yield from zip(ids.numpy(), weights.numpy(), strict=True)
            continue
        bounds = ids.row_splits.numpy()
        flat, weight = ids.values.numpy(), weights.values.numpy()
        for start, end in itertools.pairwise(bounds):
            yield flat[start:end], weight[start:end]


def _of_dataset(
    subject: Subject, dataset: tf.data.Dataset, place: Place, epochs: int, tick: Tick
) -> Findings:
    """As `ExactStrategy.experimental_distribute_dataset` shares a data set of the user's out."""
    auto = dataset.options().experimental_distribute.auto_shard_policy
    own = auto == tf.data.experimental.AutoShardPolicy.OFF
    policy = Policy("off", "auto_shard_policy is OFF: each worker trains on a data set of its own")
    if not own:
        policy = Policy(
            "data", "a tf.data.Dataset: every worker makes all batches and uses its part of each"
        )
    steps = subject.steps
    if steps is None and int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY:
        raise DataError(
            "data.function: the tf.data.Dataset never ends, so nobody knows where an epoch ends.",
            hint="Set training.steps_per_epoch, or do not repeat() the data set.",
        )
    worker, workers = (0, 1) if own else (place.worker, place.workers)
    if steps is None:
        passes = [shard_batches(dataset, worker, workers, place.replicas)] * epochs
        iterators = [iter(each) for each in passes]
    else:
        shared = shard_batches(dataset.repeat(), worker, workers, place.replicas)
        endless = iter(shared)
        iterators = [itertools.islice(endless, steps * place.replicas) for _ in range(epochs)]
    shares: list[Share] = []
    for epoch, pieces in enumerate(iterators):
        shares += _deal(_hashed(pieces), place, epoch, tick)
    return Findings(place, policy, CONTENT, tuple(shares), None)


def _hashed(pieces: Iterator[Any]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for piece in pieces:
        rows = count_rows(piece)
        hashes = row_hashes(piece) if rows is None or int(rows) else np.zeros(0, np.int64)
        yield hashes, np.ones(len(hashes), np.float32)


def _deal(
    pieces: Iterator[tuple[np.ndarray, np.ndarray]], place: Place, epoch: int, tick: Tick
) -> list[Share]:
    """Gives the pieces to the replicas in turn."""
    ids: list[list[np.ndarray]] = [[] for _ in range(place.replicas)]
    padding = [0] * place.replicas
    for number, (found, weights) in enumerate(pieces):
        replica = number % place.replicas
        real = weights != 0
        ids[replica].append(found[real])
        padding[replica] += int(len(found) - real.sum())
        tick(len(found))
    return [
        Share(
            worker=place.worker,
            replica=replica,
            epoch=epoch,
            ids=np.concatenate([np.zeros(0, np.int64), *ids[replica]]),
            sizes=np.asarray([len(each) for each in ids[replica]], np.int64),
            padding=padding[replica],
        )
        for replica in range(place.replicas)
    ]
