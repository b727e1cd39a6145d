"""What is written is the source, to the bit; stopped anywhere, it goes on."""

from __future__ import annotations

import hashlib
import json
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tensorflow as tf

from tests.data.originals import write_originals
from tests.data.tools.subjects import numbers, pictures, write_numbers
from tfdp.config import DataConfig
from tfdp.data.sources.registry import Context, load_source
from tfdp.data.tools import convert as module
from tfdp.data.tools import convert_dataset as dataset_module
from tfdp.data.tools.convert import Converted, ConvertOptions, convert
from tfdp.data.tools.shards import Shard, plan_shards
from tfdp.data.tools.subject import Subject, find_subject
from tfdp.errors import ConfigError, DataError, RunError

DEADLINE_SECONDS = 120

PROGRAM = """
import numpy as np

def several(rows):
    rng = np.random.default_rng(0)
    x = {
        "floats": rng.normal(size=(rows, 2, 3)).astype("float32"),
        "doubles": rng.normal(size=(rows, 2)),
        "label": rng.integers(-100, 100, rows).astype("int16"),
        "text": np.array([f"no {i} \\u00e9" for i in range(rows)]),
        "big": rng.integers(-(2**62), 2**62, (rows, 1)),
    }
    return x, rng.integers(0, 9, rows).astype("int32"), rng.uniform(size=rows).astype("float32")

def ragged(rows):
    return np.zeros((rows, 2), "uint64"), np.zeros(rows)

def dataset(rows, wrong=""):
    # Batches of 4, shuffled anew in every pass, from the global seed.
    import tensorflow as tf

    x = {"a": np.arange(rows, dtype="float32"), "b": np.array([f"no {i}" for i in range(rows)])}
    found = tf.data.Dataset.from_tensor_slices((x, np.arange(rows))).shuffle(rows).batch(4)
    if wrong == "endless":
        return found.repeat()
    if wrong == "tuple":
        return found.map(lambda x, y: ((x["a"], x["b"]), y))
    if wrong == "ragged":
        return found.map(lambda x, y: (tf.strings.split(x["b"]), y))
    if wrong == "breaks":
        return found.map(lambda x, y: (tf.debugging.check_numerics(x["a"] / (7 - x["a"]), "x"), y))
    if wrong == "differs":
        global passes
        passes += 1
        return found.map(lambda x, y: ({**x, "a": x["a"] + passes}, y))
    return found

passes = 0
"""


def user(folder: Path, function: str, rows: int) -> Subject:
    name = "converted_program"
    (folder / f"{name}.py").write_text(PROGRAM)
    sys.modules.pop(name, None)
    return Subject(DataConfig(function=f"{name}:{function}", arguments={"rows": rows}), folder)


def read_back(folder: Path, arguments: dict[str, Any]) -> list[Any]:
    """All rows as the source `tfrecord` gives them, in the order of the files."""
    source: Any = load_source("tfrecord", arguments, Context(folder)).train
    batches = []
    for segment in range(source.segments):
        records = source.records(tf.constant(segment, tf.int64)).batch(100)
        tickets = records.map(lambda at, record: {"at": at, "record": record})
        batches += list(tickets.map(source.read).as_numpy_iterator())
    return [
        tf.nest.map_structure(lambda *parts: np.concatenate(parts), *column)
        for column in zip(*batches, strict=True)
    ]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Subject, Converted]:
    """23 pictures in four shards."""
    folder = tmp_path_factory.mktemp("pictures")
    subject = pictures(folder, 23)
    return folder, subject, convert(subject, folder / "out", ConvertOptions(shards=4))


def test_pictures_come_back(small: tuple[Path, Subject, Converted]) -> None:
    folder, _, found = small
    x, y, _, _ = write_originals(folder / "again", train=23, test=7)
    images, labels = read_back(folder / "out", found.arguments)
    np.testing.assert_array_equal(images, x)
    np.testing.assert_array_equal(labels, y)
    assert (images.dtype, labels.dtype) == (np.uint8, np.uint8)


def test_the_manifest(small: tuple[Path, Subject, Converted]) -> None:
    folder, _, found = small
    manifest = json.loads((folder / "out" / "manifest.json").read_text())
    assert manifest["rows"] == found.rows == 23
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        "manifest.json",
        *(f"part-{number:05}-of-00004.tfrecord" for number in range(4)),
    ]
    assert [shard["rows"] for shard in manifest["shards"]] == [5, 6, 6, 6]
    for shard in manifest["shards"]:
        content = (folder / "out" / shard["file"]).read_bytes()
        assert shard["sha256"] == hashlib.sha256(content).hexdigest()
        assert shard["bytes"] == len(content)
    assert (manifest["name"], manifest["arguments"]) == ("tfrecord", found.arguments)
    assert manifest["job"]["origin"] == {
        "name": "fashion_mnist",
        "arguments": {"directory": "idx"},
        "on_error": "fail",
        "part": "train",
    }


def test_the_same_bytes_every_time(small: tuple[Path, Subject, Converted]) -> None:
    folder, subject, _ = small
    convert(subject, folder / "twice", ConvertOptions(shards=4))
    assert contents(folder / "out") == contents(folder / "twice")


def test_every_type_comes_back(tmp_path: Path) -> None:
    subject = user(tmp_path, "several", 11)
    found = convert(subject, tmp_path / "out", ConvertOptions(shards=3))
    x, y, weight = read_back(tmp_path / "out", found.arguments)
    namespace: dict[str, Any] = {}
    exec(PROGRAM, namespace)  # noqa: S102
    expected_x, expected_y, expected_weight = namespace["several"](11)
    expected_x["text"] = np.array([text.encode() for text in expected_x["text"]], object)
    assert list(x) == list(expected_x)
    for name, values in expected_x.items():
        assert x[name].dtype == values.dtype
        np.testing.assert_array_equal(x[name], values)
    assert (y.dtype, weight.dtype) == (expected_y.dtype, expected_weight.dtype)
    np.testing.assert_array_equal(y, expected_y)
    np.testing.assert_array_equal(weight, expected_weight)
    # "label" is an input already.
    assert found.arguments["target"] == "label_"


def test_a_stream_of_several_files(tmp_path: Path) -> None:
    for file, rows in enumerate([range(7), range(7, 8), range(8, 30)]):
        write_numbers(tmp_path / f"{file}.tfrecord", rows)
    found = convert(numbers(tmp_path, "?.tfrecord"), tmp_path / "out", ConvertOptions(shards=5))
    x, y = read_back(tmp_path / "out", found.arguments)
    np.testing.assert_array_equal(y, np.arange(30))
    np.testing.assert_array_equal(x, np.arange(30, dtype=np.float32) / 2)


def test_fewer_rows_than_shards(tmp_path: Path) -> None:
    found = convert(pictures(tmp_path, 3), tmp_path / "out", ConvertOptions(shards=16))
    assert found.shards == 3


def test_ranges() -> None:
    assert plan_shards(7, 3) == [Shard(0, 3, 0, 2), Shard(1, 3, 2, 4), Shard(2, 3, 4, 7)]
    assert plan_shards(7, 3)[2].name == "part-00002-of-00003.tfrecord"


def test_a_complete_folder_is_looked_through(small: tuple[Path, Subject, Converted]) -> None:
    folder, subject, _ = small
    out = folder / "damaged"
    convert(subject, out, ConvertOptions(shards=4))
    before = contents(out)
    (out / "part-00001-of-00004.tfrecord").write_bytes(b"not any more")
    (out / "part-00003-of-00004.tfrecord").unlink()
    assert convert(subject, out, ConvertOptions(shards=4)).kept == 2
    assert contents(out) == before


def test_a_folder_of_something_else_stays_as_it_is(
    small: tuple[Path, Subject, Converted], tmp_path: Path
) -> None:
    folder, subject, _ = small
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(RunError, match=r"holds 'letter\.txt', which is not of this job"):
        convert(subject, tmp_path, ConvertOptions(shards=4))
    assert contents(tmp_path) == {"letter.txt": b"mine"}
    before = contents(folder / "out")
    with pytest.raises(RunError, match=r"another conversion.*shards: 4, not 3|holds 'part-"):
        convert(subject, folder / "out", ConvertOptions(shards=3))
    with pytest.raises(RunError, match=r"another conversion .origin"):
        convert(subject, folder / "out", ConvertOptions(shards=4, part="validation"))
    assert contents(folder / "out") == before


def test_what_cannot_be_stored(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x is uint64 of shape .2., which cannot be converted"):
        convert(user(tmp_path, "ragged", 4), tmp_path / "out", ConvertOptions())
    assert not (tmp_path / "out").exists()


def test_a_data_set_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written in the order of its first pass; stopped in the middle, it goes on."""
    subject = user(tmp_path, "dataset", 30)
    out = tmp_path / "out"
    store = dataset_module.store

    def stop(shard: Shard, *rest: Any) -> Any:
        if shard.number == 2:
            raise KeyboardInterrupt
        return store(shard, *rest)

    with monkeypatch.context() as context:
        context.setattr(dataset_module, "store", stop)
        with pytest.raises(KeyboardInterrupt):
            convert(subject, out, ConvertOptions(shards=4))
    found = convert(subject, out, ConvertOptions(shards=4, jobs=3))
    assert (found.rows, found.shards, found.kept) == (30, 4, 2)
    x, y = read_back(out, found.arguments)
    batches = list(subject.part("train").as_numpy_iterator())
    order = np.concatenate([batch[1] for batch in batches])
    assert sorted(order) == list(range(30)) != order.tolist()
    np.testing.assert_array_equal(y, order)
    np.testing.assert_array_equal(x["a"], order.astype(np.float32))
    assert x["b"].tolist() == [f"no {i}".encode() for i in order]
    assert [s["rows"] for s in json.loads(found.manifest.read_text())["shards"]] == [7, 8, 7, 8]
    before = contents(out)
    assert convert(subject, out, ConvertOptions(shards=4)).kept == 4
    assert contents(out) == before


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("endless", r"dataset: the tf.data.Dataset never ends.*\n.*take"),
        ("tuple", r"inputs that are a tuple have no names"),
        ("ragged", r"x has no fixed shape: examples of different sizes"),
        ("breaks", r"dataset: a batch cannot be made: x : Tensor had Inf"),
        ("differs", r"gave other examples when it was read again.*removed.\n.*seed"),
    ],
)
def test_data_sets_that_cannot_be_converted(tmp_path: Path, wrong: str, message: str) -> None:
    subject = user(tmp_path, "dataset", 30)
    subject = replace(subject, data=replace(subject.data, arguments={"rows": 30, "wrong": wrong}))
    with pytest.raises(DataError, match=message):
        convert(subject, tmp_path / "out", ConvertOptions(shards=4))
    assert not (tmp_path / "out").exists() or contents(tmp_path / "out") == {}


def test_a_full_disk(
    small: tuple[Path, Subject, Converted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operating system refuses to let a file grow: some shards fit, the last does not."""
    folder, subject, _ = small
    sizes = {path.name: path.stat().st_size for path in (folder / "out").glob("part-*")}
    limit = sizes["part-00000-of-00004.tfrecord"] + 100  # shard 0 has 5 rows, the others 6
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(RunError, match=r"part-00001-of-00004.tfrecord: cannot be written") as e:
            convert(subject, tmp_path / "out", ConvertOptions(shards=4))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "it goes on from there" in str(e.value.hint)
    assert sorted(contents(tmp_path / "out")) == [".convert.json", "part-00000-of-00004.tfrecord"]
    assert convert(subject, tmp_path / "out", ConvertOptions(shards=4)).kept == 1
    assert contents(tmp_path / "out") == contents(folder / "out")


def test_stopped_within_a_shard(
    small: tuple[Path, Subject, Converted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, subject, _ = small
    written: list[str] = []
    write = module.write_shard

    def stop(source: Any, schema: Any, shard: Shard, *rest: Any) -> Any:
        if shard.number == 2:
            (tmp_path / "out" / f".{shard.name}.1.partial").write_bytes(b"half")
            raise KeyboardInterrupt
        written.append(shard.name)
        return write(source, schema, shard, *rest)

    with monkeypatch.context() as context:
        context.setattr(module, "write_shard", stop)
        with pytest.raises(KeyboardInterrupt):
            convert(subject, tmp_path / "out", ConvertOptions(shards=4))
    stamps = {name: (tmp_path / "out" / name).stat().st_mtime_ns for name in written}
    assert len(stamps) == 2
    assert convert(subject, tmp_path / "out", ConvertOptions(shards=4)).kept == 2
    assert contents(tmp_path / "out") == contents(folder / "out")
    for name, stamp in stamps.items():
        assert (tmp_path / "out" / name).stat().st_mtime_ns == stamp


@pytest.mark.multi_process
@pytest.mark.slow
def test_killed_with_its_processes_in_the_middle(tmp_path: Path) -> None:
    """kill -9 of the command while two processes write: it goes on, to the same bytes."""
    subject = pictures(tmp_path, 4000)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "tfdp", "data", "convert", "fashion_mnist", str(out)]
    process = subprocess.Popen(
        [*command, "--set", f"directory={tmp_path / 'idx'}", "--shards", "40", "--jobs", "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    children: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(list(out.glob("part-*"))) < 2:
            assert process.poll() is None, "the command ended before it was killed"
            assert time.monotonic() < deadline
            time.sleep(0.005)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE_SECONDS)
        _, alive = psutil.wait_procs(children, timeout=DEADLINE_SECONDS)
        assert len(children) == 2
        assert not alive, "processes outlive the command"
    finally:
        process.kill()
        for child in children:
            if child.is_running():
                child.kill()
    finished = len(list(out.glob("part-*")))
    assert 2 <= finished < 40
    assert not (out / "manifest.json").exists()
    there = Subject(
        DataConfig(name="fashion_mnist", arguments={"directory": str(tmp_path / "idx")}), tmp_path
    )
    found = convert(there, out, ConvertOptions(shards=40, jobs=1))
    assert finished - 2 <= found.kept <= finished
    convert(there, tmp_path / "fresh", ConvertOptions(shards=40, jobs=1))
    assert contents(out) == contents(tmp_path / "fresh")
    assert subject.data.name == there.data.name


def test_finding_the_source(tmp_path: Path) -> None:
    subject = find_subject("fashion_mnist", ["directory=here"])
    assert (subject.data.name, subject.data.arguments) == ("fashion_mnist", {"directory": "here"})
    with pytest.raises(ConfigError, match=r"neither a config file nor a source.*fashion_mnist"):
        find_subject("fashion", [])
    with pytest.raises(ConfigError, match=r"there is no such file"):
        find_subject(str(tmp_path / "a.yaml"), [])
