"""From any source to TFRecord shards: parallel, resumable, the same bytes every time."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfdp.data.tools.convert_dataset import DatasetExamples, place_of, write_in_order
from tfdp.data.tools.convert_workers import open_for_writing, write_in_processes
from tfdp.data.tools.encoding import Schema
from tfdp.data.tools.journal import Journal
from tfdp.data.tools.progress import Counter
from tfdp.data.tools.shards import Shard, plan_shards, write_shard
from tfdp.data.tools.subject import Subject, origin_of

_log = logging.getLogger("tfdp.data")

DEFAULT_SHARDS = 16
_WORTH_A_PROCESS = 50_000
"""Rows: a process takes seconds to start."""


@dataclass(frozen=True)
class ConvertOptions:
    """How to convert.

    Attributes:
      part: "train" or "validation".
      shards: files; as many as there are rows if those are fewer.
      jobs: processes that write shards; None: as many as are worth it, up to the cores. Does not
        change what is written.
    """

    part: str = "train"
    shards: int = DEFAULT_SHARDS
    jobs: int | None = None


@dataclass(frozen=True)
class Converted:
    """What is in the folder now.

    Attributes:
      manifest: its file.
      rows: in all shards.
      shards: how many there are.
      kept: shards that had been finished before.
      arguments: of the source ``tfrecord`` that reads them back, the pattern relative to the
        folder.
    """

    manifest: Path
    rows: int
    shards: int
    kept: int
    arguments: dict[str, Any]


def convert(subject: Subject, folder: Path, options: ConvertOptions) -> Converted:
    """Writes the examples of a source, in their order and as they are, to TFRecord shards.

    Shards are written under other names and renamed when they are complete. What was finished
    before, and is still as it was written, is kept.

    Args:
      subject: the source. A tf.data.Dataset of the user's is read twice, in this process.
      folder: of the shards: empty, missing, or that of the same conversion.
      options: see there.

    Raises:
      ConfigError, DataError: the source cannot be loaded, read or stored.
      RunError: the folder holds something else, or the disk fails.
      WorkerError: a process that wrote shards has failed.
    """
    examples = subject.part(options.part)
    if isinstance(examples, tf.data.Dataset):
        return _convert_dataset(subject, examples, folder, options)
    source, schema = open_for_writing(examples)
    job = _Job(subject, folder, options, source.rows, schema, source.fingerprint(), source.classes)
    todo = job.unfinished
    with Counter("converting", source.rows, job.rows_done) as counter:
        jobs = min(options.jobs or _worth(source.rows - job.rows_done), max(len(todo), 1))
        if jobs == 1:
            for shard in todo:
                job.journal.add(shard, write_shard(source, schema, shard, folder, counter.add))
        else:
            task = {"subject": subject.to_json(), "part": options.part, "folder": str(folder)}
            write_in_processes(task, todo, jobs, job.journal.add, counter.add)
    return job.complete()


def _convert_dataset(
    subject: Subject, dataset: tf.data.Dataset, folder: Path, options: ConvertOptions
) -> Converted:
    if options.jobs not in (None, 1):
        _log.warning("a tf.data.Dataset is read from its beginning: one process writes all shards")
    examples = DatasetExamples(dataset, place_of(subject))
    with Counter("counting") as counter:
        content = examples.look_through(counter.add)
    job = _Job(subject, folder, options, content.rows, examples.schema, content.digest)
    if job.unfinished:
        again = DatasetExamples(subject.part(options.part), place_of(subject))
        with Counter("converting", content.rows) as counter:
            write_in_order(again, content, job.shards, folder, job.journal, counter.add)
    return job.complete()


class _Job:
    """One conversion: its shards, and what is known of them.

    Raises:
      RunError: the folder holds something else, or cannot be written.
    """

    def __init__(
        self,
        subject: Subject,
        folder: Path,
        options: ConvertOptions,
        rows: int,
        schema: Schema,
        fingerprint: int | str,
        classes: int | None = None,
    ) -> None:
        self.shards = plan_shards(rows, min(options.shards, rows))
        pattern = f"part-*-of-{len(self.shards):05}.tfrecord"
        self._arguments = {"files": pattern, **schema.arguments()}
        if classes is not None:
            self._arguments["classes"] = classes
        self._rows = rows
        facts = {
            "origin": origin_of(subject, options.part),
            "fingerprint": fingerprint,
            "rows": rows,
            "shards": len(self.shards),
            "features": self._arguments["features"],
        }
        self.journal = Journal(folder, facts, self.shards)
        self._kept = len(self.journal.finished)

    @property
    def unfinished(self) -> list[Shard]:
        return [shard for shard in self.shards if shard.number not in self.journal.finished]

    @property
    def rows_done(self) -> int:
        return sum(written.rows for written in self.journal.finished.values())

    def complete(self) -> Converted:
        manifest = self.journal.complete({"name": "tfrecord", "arguments": self._arguments})
        return Converted(manifest, self._rows, len(self.shards), self._kept, self._arguments)


def _worth(rows: int) -> int:
    return max(1, min(len(os.sched_getaffinity(0)), rows // _WORTH_A_PROCESS))
