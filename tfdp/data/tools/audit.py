"""Does every example come once? Found without training: see `audit`."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfdp.data.policy import Policy
from tfdp.data.sources.files import WORKER
from tfdp.data.tickets import own_batch
from tfdp.data.tools.audit_workers import collect_apart
from tfdp.data.tools.collect import Findings, Place, Share, Tick, collect
from tfdp.data.tools.judge import Expected, Verdict, judge, merged, shared
from tfdp.data.tools.subject import Subject
from tfdp.errors import DataError


@dataclass(frozen=True)
class AuditOptions:
    """What to look at.

    Attributes:
      part: "train" or "validation".
      workers: how many take part.
      replicas: of each worker.
      epochs: from the first.
      by: "place", "content" or None, what tells examples apart.
    """

    part: str = "train"
    workers: int = 1
    replicas: int = 1
    epochs: int = 1
    by: str | None = None


@dataclass(frozen=True)
class Audit:
    """What was found.

    Attributes:
      options: what was asked for.
      policy: how the workers share the reading, and why.
      by: what told examples apart.
      remainder: ``data.remainder``.
      steps: ``training.steps_per_epoch``.
      shares: of every replica and epoch.
      examples: how many there are.
      verdicts: for each epoch; a single one, over all of them, where `steps` is set.
      unread: files of workers that are not there.
    """

    options: AuditOptions
    policy: Policy
    by: str
    remainder: str
    steps: int | None
    shares: tuple[Share, ...]
    examples: int
    verdicts: tuple[Verdict, ...]
    unread: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether no example is lost or doubled."""
        return not self.unread and all(verdict.sound for verdict in self.verdicts)


def audit(subject: Subject, options: AuditOptions, tick: Tick) -> Audit:
    """Runs every worker's pipeline up to where examples can be told apart, and counts them.

    The pipeline is the one that trains; what should come out of it is found by enumerating the
    source, or for a function of the user's by calling it as one process without workers would.
    Workers that call a function of the user's are processes of their own, with a TF_CONFIG each.

    Args:
      subject: the data.
      options: see there.
      tick: progress.

    Raises:
      ConfigError, DataError: the data cannot be loaded or read, or never end.
      WorkerError: a worker's process has failed.
    """
    workers = options.workers
    if subject.data.function is not None:
        reference, found = collect_apart(subject, options, tick)
    else:
        reference, found = None, list(_collect_here(subject, options, tick))
    verdicts, examples = _judge_all(subject, options, reference, found)
    return Audit(
        options=options,
        policy=found[0].policy,
        by=found[0].by,
        remainder=subject.data.remainder if options.part == "train" else "exact",
        steps=subject.steps if options.part == "train" else None,
        shares=tuple(share for each in found for share in each.shares),
        examples=examples,
        verdicts=tuple(verdicts),
        unread=tuple(unread_files(subject, workers)),
    )


def unread_files(subject: Subject, workers: int) -> Iterator[str]:
    """Files that a pattern with {worker} matches for workers that are not there."""
    for value in subject.data.arguments.values():
        if isinstance(value, str) and WORKER in value:
            path = str(subject.directory / Path(value).expanduser())
            read = {
                file
                for worker in range(workers)
                for file in glob.glob(path.replace(WORKER, str(worker)), recursive=True)
            }
            yield from sorted(set(_numbered(path)) - read)


def _numbered(path: str) -> list[str]:
    patterns = [path.replace(WORKER, "[0-9]" * digits) for digits in (1, 2, 3, 4)]
    return [file for pattern in patterns for file in glob.glob(pattern, recursive=True)]


def _collect_here(subject: Subject, options: AuditOptions, tick: Tick) -> Iterator[Findings]:
    examples: Any = None
    for worker in range(options.workers):
        if examples is None or getattr(examples, "per_worker", False):
            examples = subject.part(options.part, worker if options.workers > 1 else None)
        place = Place(worker, options.workers, options.replicas)
        yield collect(
            subject, examples, options.part, place, epochs=options.epochs, by=options.by, tick=tick
        )
        if isinstance(examples, tf.data.Dataset):
            raise DataError("a source by name gave a tf.data.Dataset.")


def _judge_all(
    subject: Subject,
    options: AuditOptions,
    reference: Findings | None,
    found: Sequence[Findings],
) -> tuple[list[Verdict], int]:
    """The verdicts, and how many examples there are."""
    epochs = [_epoch(found, epoch) for epoch in range(options.epochs)]
    own = found[0].policy.own
    steps = subject.steps if options.part == "train" else None
    if found[0].sweep is None:
        return _judge_dataset(reference, found, epochs, own and steps is not None)
    basis = found if reference is None else [reference]
    sweeps = [each.sweep for each in basis if each.sweep is not None]
    everything = merged(sweeps)
    if steps is not None and own:
        return [_judge_own_steps(subject, found, steps, options.epochs)], len(everything)
    drop = subject.data.remainder == "drop" and options.part == "train"
    if steps is None:
        expected = Expected(everything, droppable=_droppable(subject, found) if drop else 0)
        return [judge(expected, each) for each in epochs], len(everything)
    batch, rows = subject.data.global_batch, len(everything)
    per_sweep = rows // batch if drop else -(-rows // batch)
    complete, rest = divmod(options.epochs * steps, per_sweep)
    expected = Expected(
        everything, complete, complete + bool(rest), complete * (rows % batch) if drop else 0
    )
    return [judge(expected, np.concatenate(epochs))], rows


def _judge_dataset(
    reference: Findings | None,
    found: Sequence[Findings],
    epochs: Sequence[np.ndarray],
    disjoint_only: bool,
) -> tuple[list[Verdict], int]:
    """A data set of the user's: all workers together against one process."""
    verdicts = []
    total = 0
    for epoch, ids in enumerate(epochs):
        parts = [_epoch([each], epoch) for each in found]
        expected = merged(parts) if reference is None else _epoch([reference], epoch)
        total = max(total, len(expected))
        if disjoint_only:  # own data, and a number of steps: how often each comes is not known
            once = [np.unique(part) for part in parts]
            verdicts.append(Verdict(doubled=shared(once)))
        else:
            verdicts.append(judge(Expected(expected), ids))
    return verdicts, total


def _judge_own_steps(
    subject: Subject, found: Sequence[Findings], steps: int, epochs: int
) -> Verdict:
    """Workers with examples of their own, and epochs that are no sweeps."""
    parts = [np.concatenate([share.ids for share in each.shares]) for each in found]
    doubled = shared([np.unique(part) for part in parts])
    lost = unknown = 0
    for each, part in zip(found, parts, strict=True):
        assert each.sweep is not None
        if each.policy.name != "off":
            continue
        batch = own_batch(subject.data.global_batch, each.place.worker, each.place.workers)
        rows = len(each.sweep)
        drop = subject.data.remainder == "drop"
        per_sweep = max(1, rows // batch if drop else -(-rows // batch))
        complete, rest = divmod(epochs * steps, per_sweep)
        droppable = complete * (rows % batch) if drop else 0
        verdict = judge(Expected(each.sweep, complete, complete + bool(rest), droppable), part)
        doubled += verdict.doubled
        lost += verdict.lost
        unknown += verdict.unknown
    return Verdict(lost=lost, doubled=doubled, unknown=unknown)


def _droppable(subject: Subject, found: Sequence[Findings]) -> int:
    """How many examples of an epoch dropping the remainder leaves out."""
    batch = subject.data.global_batch
    first = found[0]
    assert first.sweep is not None
    if not first.policy.own:
        return len(first.sweep) % batch
    own = [own_batch(batch, each.place.worker, each.place.workers) for each in found]
    if first.policy.name == "file":  # how many rows are a worker's is not known here: at most
        return sum(each - 1 for each in own)
    rows = [0 if each.sweep is None else len(each.sweep) for each in found]
    return sum(count % size for count, size in zip(rows, own, strict=True))


def _epoch(found: Sequence[Findings], epoch: int) -> np.ndarray:
    shares = [share.ids for each in found for share in each.shares if share.epoch == epoch]
    return np.concatenate(shares)
