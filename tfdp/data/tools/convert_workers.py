"""Processes that write shards: each loads the source itself, and is told which shards to write."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tfdp import errors
from tfdp.data.examples import Examples
from tfdp.data.sources.base import Source
from tfdp.data.tools.encoding import Schema, schema_of
from tfdp.data.tools.shards import Shard, Written, batches_of, source_of, write_shard
from tfdp.data.tools.subject import Subject
from tfdp.errors import TfdpError, WorkerError

_LINES = 20


def open_for_writing(examples: Examples) -> tuple[Source, Schema]:
    """The source of examples, and how they are stored.

    Args:
      examples: that can be read from any row on.

    Raises:
      DataError: they cannot be stored.
    """
    source = source_of(examples)
    return source, schema_of(batches_of(source, 0, 1).element_spec, source.place)


def write_in_processes(
    task: dict[str, Any],
    shards: Sequence[Shard],
    jobs: int,
    finished: Callable[[Shard, Written], None],
    tick: Callable[[int], None],
) -> None:
    """Has shards written by several processes, which take them in turn.

    Args:
      task: `subject`, `part` and `folder`.
      shards: what to write.
      jobs: processes.
      finished: called, one at a time, with each shard that is complete.
      tick: progress in examples.

    Raises:
      TfdpError: as a process has raised it; the others are ended, finished shards are kept.
      WorkerError: a process has ended without saying why.
    """
    todo: queue.SimpleQueue[Shard] = queue.SimpleQueue()
    for shard in shards:
        todo.put(shard)
    lock = threading.Lock()
    processes = [_start(task) for _ in range(jobs)]

    def note(shard: Shard, written: Written) -> None:
        with lock:
            finished(shard, written)

    try:
        with ThreadPoolExecutor(jobs) as pool:
            running = [pool.submit(_serve, process, todo, note, tick) for process in processes]
            try:
                for each in running:
                    each.result()
            except BaseException:
                _end(processes)
                raise
    finally:
        _end(processes)


def _start(task: dict[str, Any]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tfdp.data.tools.convert_workers"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    _tell(process, task)
    return process


def _end(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        process.kill()
        process.wait()


def _serve(
    process: subprocess.Popen[str],
    todo: queue.SimpleQueue[Shard],
    finished: Callable[[Shard, Written], None],
    tick: Callable[[int], None],
) -> None:
    """Gives one process shard after shard."""
    while True:
        try:
            shard = todo.get_nowait()
        except queue.Empty:
            return
        _tell(process, asdict(shard))
        finished(shard, _answer(process, tick))


def _tell(process: subprocess.Popen[str], message: dict[str, Any]) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        return  # it has ended: its output says why


def _answer(process: subprocess.Popen[str], tick: Callable[[int], None]) -> Written:
    last: deque[str] = deque(maxlen=_LINES)
    assert process.stdout is not None
    for line in process.stdout:
        word, _, rest = line.partition(" ")
        if word == "tick":
            tick(int(rest))
        elif word == "written":
            return Written(**json.loads(rest))
        elif word == "failed":
            failure = json.loads(rest)
            kind = getattr(errors, failure["kind"], WorkerError)
            raise kind(failure["message"], hint=failure["hint"])
        else:
            last.append(line)
    code = process.wait()
    raise WorkerError(
        f"a process that wrote shards has ended (exit code {code}):\n{''.join(last).rstrip()}",
        hint="Finished shards are kept; start the same command again.",
    )


def _main() -> None:
    """In a process: a task, and then shards, one a line, until the parent is gone."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    try:
        task = json.loads(lines.get())
        subject = Subject.from_json(task["subject"])
        source, schema = open_for_writing(subject.part(task["part"]))
        while True:
            shard = Shard(**json.loads(lines.get()))
            written = write_shard(
                source, schema, shard, Path(task["folder"]), lambda rows: _say("tick", rows)
            )
            _say("written", json.dumps(asdict(written)))
    except TfdpError as error:
        failure = {"kind": type(error).__name__, "message": error.message, "hint": error.hint}
        _say("failed", json.dumps(failure))


def _listen(lines: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(1)  # the parent is gone, or wants no more


def _say(word: str, value: Any) -> None:
    print(word, value, flush=True)


if __name__ == "__main__":
    _main()
