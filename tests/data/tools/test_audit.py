"""The audit finds what is wrong, and nothing where nothing is, against counts by hand."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.tools.subjects import numbers, pictures, write_numbers
from tfdp.cluster.detect import tf_config_text
from tfdp.config import DataConfig
from tfdp.data.arrays import Arrays
from tfdp.data.batches import EpochBatches, Workload
from tfdp.data.tools import audit_workers
from tfdp.data.tools.audit import Audit, AuditOptions, audit
from tfdp.data.tools.audit_report import describe, lines_of, rows_of, table_of, to_json
from tfdp.data.tools.collect import Findings, Place
from tfdp.data.tools.subject import Subject
from tfdp.errors import DataError, WorkerError


def audited(subject: Subject, **options: Any) -> Audit:
    ticks: list[int] = []
    found = audit(subject, AuditOptions(**options), ticks.append)
    assert sum(ticks) >= sum(len(share.ids) for share in found.shares)
    return found


def cut(rows: int, pieces: int) -> list[int]:
    """As evenly as it can be, the first pieces having one more."""
    return [len(part) for part in np.array_split(np.arange(rows), pieces)]


def verdict(found: Audit) -> tuple[int, int, int, int]:
    (one,) = found.verdicts
    return one.lost, one.doubled, one.dropped, one.unknown


def test_what_each_replica_gets(tmp_path: Path) -> None:
    found = audited(pictures(tmp_path, 103, global_batch=25), workers=3, replicas=2, epochs=2)
    assert found.sound
    assert (found.policy.name, found.by, found.examples) == ("data", "place", 103)
    batches = [25, 25, 25, 25, 3] * 2
    for row in rows_of(found):
        sizes = [cut(batch, 6)[row.replica * 3 + row.worker] for batch in batches]
        assert (row.examples, row.batches) == (sum(sizes), len(sizes))
        assert (row.smallest, row.largest) == (min(sizes), max(sizes))
        assert row.empty == sizes.count(0)
    assert "empty batches: 6; they count nothing" in list(lines_of(found))
    assert list(lines_of(found))[-1] == "every example comes once"


def test_the_audit_sees_what_the_strategy_hands_out() -> None:
    """Rows of each replica in `tf.distribute` itself."""
    from tfdp.strategies.factory import strategy

    source = Arrays(np.arange(50, dtype=np.float32)[:, None], np.arange(50))
    made = strategy("mirrored", devices=3)
    batches = EpochBatches(source, global_batch=16, seed=2)
    handed: list[list[int]] = [[], [], []]
    for _, y in made.experimental_distribute_dataset(batches.dataset):
        for replica, rows in enumerate(made.experimental_local_results(y)):
            handed[replica] += rows.numpy().tolist()
    from tfdp.data.tools.collect import collect

    subject = Subject(DataConfig(name="fashion_mnist", global_batch=16, seed=2), Path())
    place = Place(0, 1, 3)
    seen = collect(subject, source, "train", place, epochs=1, tick=lambda count: None)
    assert [share.ids.tolist() for share in seen.shares] == handed


@pytest.mark.parametrize(
    ("remainder", "batch", "counts", "padding"),
    [("exact", 25, (0, 0, 0, 0), 0), ("drop", 25, (0, 0, 3, 0), 0), ("pad", 25, (0, 0, 0, 0), 22)],
)
def test_remainders(
    remainder: str, batch: int, counts: tuple[int, ...], padding: int, tmp_path: Path
) -> None:
    subject = pictures(tmp_path, 103, global_batch=batch, remainder=remainder)
    found = audited(subject, workers=2, replicas=2)
    assert found.sound
    assert verdict(found) == counts
    assert sum(row.padding for row in rows_of(found)) == padding
    if remainder == "drop":
        assert "left out on purpose (data.remainder: drop): 3" in describe(found.verdicts[0])


def test_an_epoch_of_some_steps(tmp_path: Path) -> None:
    subject = pictures(tmp_path, 40, global_batch=16)
    subject = Subject(subject.data, tmp_path, steps=2)
    found = audited(subject, workers=2, epochs=4)
    # Sweeps of 16, 16 and 8 rows: eight batches are two sweeps, and two batches of a third.
    assert verdict(found) == (0, 0, 0, 0)
    assert sum(row.examples for row in rows_of(found)) == 2 * 40 + 2 * 16


def test_a_worker_that_takes_another_ones_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = Workload.share
    monkeypatch.setattr(
        Workload, "share", lambda self, worker, *rest: share(self, worker // 2 * 2, *rest)
    )
    found = audited(pictures(tmp_path, 100, global_batch=20), workers=4)
    # Workers 1 and 3 do what 0 and 2 do.
    assert verdict(found) == (50, 50, 0, 0)
    assert not found.sound
    assert list(lines_of(found))[-1] == "examples are lost or doubled"


def test_files_of_each_workers_own(tmp_path: Path) -> None:
    write_numbers(tmp_path / "w0.tfrecord", range(16))
    write_numbers(tmp_path / "w1.tfrecord", range(16, 20))
    found = audited(numbers(tmp_path, "w{worker}.tfrecord", global_batch=8), workers=2)
    assert found.sound
    assert (found.policy.name, found.by, found.examples) == ("off", "content", 20)
    assert [row.examples for row in rows_of(found)] == [16, 4]
    assert any(line.startswith("uneven shards: a worker has 4 to 16") for line in lines_of(found))


def test_files_that_overlap(tmp_path: Path) -> None:
    write_numbers(tmp_path / "w0.tfrecord", range(16))
    write_numbers(tmp_path / "w1.tfrecord", range(12, 20))
    subject = numbers(tmp_path, "w{worker}.tfrecord", global_batch=8)
    assert verdict(audited(subject, workers=2)) == (0, 4, 0, 0)
    # By place they are different records.
    assert audited(subject, workers=2, by="place").sound


def test_one_file_in_two_workers(tmp_path: Path) -> None:
    write_numbers(tmp_path / "w0.tfrecord", range(16))
    (tmp_path / "w1.tfrecord").symlink_to(tmp_path / "w0.tfrecord")
    subject = numbers(tmp_path, "w{worker}.tfrecord", global_batch=8)
    for by in ("place", "content"):
        assert verdict(audited(subject, workers=2, by=by)) == (0, 16, 0, 0)


def test_files_that_no_worker_reads(tmp_path: Path) -> None:
    for worker in range(3):
        write_numbers(tmp_path / f"w{worker}.tfrecord", range(worker * 10, worker * 10 + 10))
    found = audited(numbers(tmp_path, "w{worker}.tfrecord", global_batch=8), workers=2)
    assert not found.sound
    assert found.unread == (str(tmp_path / "w2.tfrecord"),)
    assert any("no worker of 2 reads" in line for line in lines_of(found))


@pytest.mark.parametrize("shard", ["auto", "file"])
def test_streams(shard: str, tmp_path: Path) -> None:
    for file, rows in enumerate([range(16), range(16, 20), range(20, 21)]):
        write_numbers(tmp_path / f"{file}.tfrecord", rows)
    found = audited(numbers(tmp_path, "*.tfrecord", global_batch=6, shard=shard), workers=4)
    assert found.sound
    assert found.examples == sum(row.examples for row in rows_of(found)) == 21


def test_shard_off_gives_every_worker_everything(tmp_path: Path) -> None:
    write_numbers(tmp_path / "0.tfrecord", range(20))
    found = audited(numbers(tmp_path, "*.tfrecord", global_batch=6, shard="off"), workers=3)
    assert verdict(found) == (0, 40, 0, 0)


def test_validation_examples(tmp_path: Path) -> None:
    found = audited(pictures(tmp_path, 30), part="validation", workers=2)
    assert (found.sound, found.examples) == (True, 7)


def test_as_json(tmp_path: Path) -> None:
    found = json.loads(to_json(audited(pictures(tmp_path, 30, global_batch=20), workers=2)))
    assert (found["sound"], found["examples"], found["workers"]) == (True, 30, 2)
    assert found["policy"]["name"] == "data"
    counted = Counter(
        share["worker"] for share in found["shares"] for _ in range(share["examples"])
    )
    assert counted == {0: 15, 1: 15}


def test_many_replicas_are_summarised(tmp_path: Path) -> None:
    found = audited(pictures(tmp_path, 64, global_batch=64), workers=8, replicas=8)
    assert found.sound
    assert table_of(found).row_count <= 2
    assert "of 64 replicas" in str(table_of(found).caption)


# Functions of the user's. -------------------------------------------------------------------------

PROGRAM = """
import json, os
import numpy as np
import tensorflow as tf

def place():
    if "TF_CONFIG" not in os.environ:
        return 0, 1
    config = json.loads(os.environ["TF_CONFIG"])
    return config["task"]["index"], len(config["cluster"]["worker"])

def dataset(rows, sharded=False, off=False, shuffle=False, extra=0):
    worker, workers = place()
    numbers = tf.data.Dataset.range(rows + (extra if workers > 1 else 0))
    if sharded:
        numbers = numbers.shard(workers, worker)
    if shuffle:
        numbers = numbers.shuffle(rows)
    batches = numbers.map(lambda n: (tf.cast(n, tf.float32)[None], n)).batch(8)
    options = tf.data.Options()
    if off:
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return batches.with_options(options)

def arrays(rows, sharded=False):
    worker, workers = place()
    numbers = np.arange(rows)
    if sharded:
        numbers = numbers[worker::workers]
    return numbers[:, None].astype("float32"), numbers

def needs_workers(rows):
    if place()[1] == 1:
        raise RuntimeError("only in a worker")
    return dataset(rows, sharded=True, off=True)

def endless(rows):
    return dataset(rows).repeat()

def broken(rows):
    os._exit(3)
"""


def user(folder: Path, function: str, **arguments: Any) -> Subject:
    name = "audited_program"
    (folder / f"{name}.py").write_text(PROGRAM)
    return Subject(
        DataConfig(function=f"{name}:{function}", arguments=arguments, global_batch=8), folder
    )


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers one after the other here, which is faster than starting them."""

    def work(
        subject: Subject, options: AuditOptions, place: Place, tick: Callable[[int], None]
    ) -> Findings:
        with monkeypatch.context() as context:
            context.setattr(sys, "path", list(sys.path))
            context.delenv("TF_CONFIG", raising=False)
            if place.workers > 1:
                addresses = [f"127.0.0.1:{port + 1}" for port in range(place.workers)]
                context.setenv("TF_CONFIG", tf_config_text(addresses, place.worker))
            examples = subject.part(options.part)
            sys.modules.pop("audited_program", None)
            return audit_workers.collect(
                subject, examples, options.part, place, epochs=options.epochs, tick=tick
            )

    class Now:
        def __init__(self, function: Any, *arguments: Any) -> None:
            self.error: Exception | None = None
            try:
                self.value = function(*arguments)
            except Exception as error:
                self.error = error

        def result(self) -> Any:
            if self.error is not None:
                raise self.error
            return self.value

    class Pool:
        def __init__(self, count: int | None) -> None: ...
        def __enter__(self) -> Pool:
            return self

        def __exit__(self, *error: object) -> None: ...
        def submit(self, *call: Any) -> Now:
            return Now(*call)

    monkeypatch.setattr(audit_workers, "_collect_in_process", work)
    monkeypatch.setattr(audit_workers, "ThreadPoolExecutor", Pool)


@pytest.fixture(autouse=True)
def _no_module_stays() -> Iterator[None]:
    yield
    sys.modules.pop("audited_program", None)


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("function", "arguments", "policy", "counts"),
    [
        ("dataset", {}, "data", (0, 0, 0, 0)),
        ("dataset", {"shuffle": True}, "data", (0, 0, 0, 0)),
        ("dataset", {"sharded": True, "off": True}, "off", (0, 0, 0, 0)),
        # OFF, and every worker reads everything.
        ("dataset", {"off": True}, "off", (0, 40, 0, 0)),
        # Sharded already, and each worker then uses half of its batches of 8, 8 and 4: of worker
        # 0 the first 4, 4 and 2 rows, of worker 1 the last.
        ("dataset", {"sharded": True}, "data", (20, 0, 0, 0)),
        # Workers read rows that one process does not.
        ("dataset", {"extra": 8}, "data", (0, 0, 0, 8)),
        ("arrays", {}, "data", (0, 0, 0, 0)),
        ("arrays", {"sharded": True}, "data", (20, 0, 0, 0)),
        ("needs_workers", {}, "off", (0, 0, 0, 0)),
    ],
)
def test_functions_of_the_users(
    function: str,
    arguments: dict[str, Any],
    policy: str,
    counts: tuple[int, ...],
    tmp_path: Path,
) -> None:
    found = audited(user(tmp_path, function, rows=40, **arguments), workers=2, replicas=2)
    assert found.policy.name == policy
    assert verdict(found) == counts
    assert found.sound == (not any(counts))


@pytest.mark.usefixtures("in_this_process")
def test_steps_of_a_data_set_of_the_users(tmp_path: Path) -> None:
    subject = user(tmp_path, "endless", rows=24)
    with pytest.raises(DataError, match="never ends"):
        audited(subject, workers=2)
    some = Subject(subject.data, tmp_path, steps=2)
    found = audited(some, workers=2, epochs=3)
    assert found.sound
    assert sum(row.examples for row in rows_of(found)) == 3 * 2 * 8


def test_a_data_set_in_one_process(tmp_path: Path) -> None:
    found = audited(user(tmp_path, "dataset", rows=20), replicas=3)
    assert (found.sound, found.examples) == (True, 20)
    assert [row.examples for row in rows_of(found)] == [3 + 3 + 2, 3 + 3 + 1, 2 + 2 + 1]


@pytest.mark.multi_process
@pytest.mark.slow
def test_workers_are_processes_of_their_own(tmp_path: Path) -> None:
    """Sharded by TF_CONFIG, and cut again: half is lost."""
    found = audited(user(tmp_path, "dataset", rows=40, sharded=True), workers=2)
    assert verdict(found) == (20, 0, 0, 0)
    assert [row.examples for row in rows_of(found)] == [10, 10]


def test_a_worker_that_ends_without_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nread task\necho no memory left\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(WorkerError, match=r"worker 1 ended .*exit code 3.:\nno memory left"):
        audit_workers._collect_in_process(
            user(tmp_path, "arrays", rows=4), AuditOptions(workers=2), Place(1, 2), print
        )


def test_no_validation_examples(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no validation examples"):
        audited(user(tmp_path, "arrays", rows=4), part="validation")
