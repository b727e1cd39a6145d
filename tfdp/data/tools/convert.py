"""From any source to TFRecord shards: parallel, resumable, the same bytes every time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfdp.data.tools.convert_workers import open_for_writing, write_in_processes
from tfdp.data.tools.journal import Journal
from tfdp.data.tools.progress import Counter
from tfdp.data.tools.shards import plan_shards, write_shard
from tfdp.data.tools.subject import Subject, origin_of

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
      subject: the source.
      folder: of the shards: empty, missing, or that of the same conversion.
      options: see there.

    Raises:
      ConfigError, DataError: the source cannot be loaded, read or stored.
      RunError: the folder holds something else, or the disk fails.
      WorkerError: a process that wrote shards has failed.
    """
    source, schema = open_for_writing(subject, options.part)
    rows = source.rows
    assert rows is not None, "streams count their files"
    shards = plan_shards(rows, min(options.shards, rows))
    arguments = {"files": f"part-*-of-{len(shards):05}.tfrecord", **schema.arguments()}
    if source.classes is not None:
        arguments["classes"] = source.classes
    job = {
        "origin": origin_of(subject, options.part),
        "fingerprint": source.fingerprint(),
        "rows": rows,
        "shards": len(shards),
        "features": arguments["features"],
    }
    journal = Journal(folder, job, shards)
    kept = len(journal.finished)
    todo = [shard for shard in shards if shard.number not in journal.finished]
    done = sum(written.rows for written in journal.finished.values())
    with Counter("converting", rows, done) as counter:
        jobs = min(options.jobs or _worth(rows - done), max(len(todo), 1))
        if jobs == 1:
            for shard in todo:
                journal.add(shard, write_shard(source, schema, shard, folder, counter.add))
        else:
            task = {"subject": subject.to_json(), "part": options.part, "folder": str(folder)}
            write_in_processes(task, todo, jobs, journal.add, counter.add)
    manifest = journal.complete({"name": "tfrecord", "arguments": arguments})
    return Converted(manifest, rows, len(shards), kept, arguments)


def _worth(rows: int) -> int:
    return max(1, min(len(os.sched_getaffinity(0)), rows // _WORTH_A_PROCESS))
