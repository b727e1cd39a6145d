"""Damaged and odd files: named with their place, or left out and counted; nothing else is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.data.sources.written import (
    NUMBERS,
    PICTURES,
    example,
    inputs,
    open_source,
    picture,
    png,
    write_csv,
    write_records,
)
from tfdp.data.batches import EpochBatches
from tfdp.data.failures import data_errors
from tfdp.data.sources import csv_files as csv_module
from tfdp.data.sources import parquet as parquet_module
from tfdp.data.sources.framing import count_records
from tfdp.errors import ConfigError, DataError

ROWS = 6


def targets(source: Any, **options: Any) -> list[int]:
    batches = EpochBatches(source, global_batch=4, shuffle=False, **options)
    with data_errors(batches.source):
        return [int(i) for _, y in batches.dataset.as_numpy_iterator() for i in y]


def records(folder: Path, on_error: str = "fail", **options: Any) -> Any:
    arguments = {"files": "*.tfrecord", "features": NUMBERS, "target": "y", **options}
    return open_source("tfrecord", folder, on_error, **arguments)


def good(i: int) -> bytes:
    return example(x=inputs([i])[0], y=i)


def write_good(path: Path, count: int = ROWS, compression: str = "") -> bytearray:
    write_records(path, [good(i + 1) for i in range(count)], compression)
    return bytearray(path.read_bytes())


def cut(content: bytearray) -> bytearray:
    return content[:-5]


def within_header(content: bytearray) -> bytearray:
    return content[: len(content) // ROWS * 5 + 8]


def flip(byte: int) -> Callable[[bytearray], bytearray]:
    def change(content: bytearray) -> bytearray:
        content[byte] ^= 1
        return content

    return change


@pytest.mark.parametrize(
    ("compression", "damage", "message", "left"),
    [
        ("", cut, r"ends at byte \d+, but the record at byte {5} goes to", [1, 2, 3, 4, 5]),
        ("", within_header, r"ends at byte \d+, within the record at byte {5}", [1, 2, 3, 4, 5]),
        ("", "data", r"the record at byte {2} is damaged .its checksum differs", [1, 2, 4, 5, 6]),
        ("", "length", r"the length of the record at byte {2} is damaged; nothing after", [1, 2]),
        ("GZIP", lambda c: c[:-20], "the file is damaged or cut short", None),
        ("", lambda c: bytearray(b"not a record file at all, but text"), "byte 0 is damaged", None),
    ],
)  # fmt: skip
def test_damaged_record_files(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    compression: str,
    damage: Any,
    message: str,
    left: list[int] | None,
) -> None:
    path = tmp_path / "a.tfrecord"
    content = write_good(path, compression=compression)
    record = len(content) // ROWS
    if damage in ("data", "length"):
        damage = flip(2 * record + (13 if damage == "data" else 0))
    path.write_bytes(damage(content))
    write_records(tmp_path / "b.tfrecord", [good(7)])
    for number in (2, 5):
        message = message.replace(f"{{{number}}}", str(number * record))
    with pytest.raises(DataError, match=f"a.tfrecord: .*{message}"):
        targets(records(tmp_path))
    caplog.set_level(logging.WARNING, "tfdp")
    source = records(tmp_path, on_error="skip")
    found = targets(source)
    assert found[-1] == 7
    assert found[:-1] == ([] if "byte 0" in message else found[:-1] if left is None else left)
    assert "cannot be read (data.on_error: skip): " in caplog.text
    assert len(targets(source, shard="file")) == source.rows == len(found)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (example(x=inputs([3])[0][:2], y=3), "Key: x.*Number of float values != expected"),
        (example(y=3), "Feature: x .*required but could not be found"),
        (example(x=inputs([3])[0], y=b"three"), "Key: y.*Data types don't match"),
        (b"no example at all", "Could not parse example input"),
        (example(x=inputs([np.nan])[0], y=3), "not finite"),
        (example(x=inputs([3])[0], y=9), "label is out of range: 9 classes"),
    ],
    # The order of the features in the bytes differs from process to process.
    ids=["too short", "missing", "of another type", "no example", "NaN", "label out of range"],
)
def test_records_that_are_no_examples(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, bad: bytes, message: str
) -> None:
    write_records(tmp_path / "a.tfrecord", [good(1), good(2), bad, good(4)])
    write_records(tmp_path / "b.tfrecord", [good(5)])
    where = len(good(1)) + len(good(2)) + 2 * 16
    with pytest.raises(DataError, match=f"a.tfrecord: record 2, byte {where}: .*{message}"):
        targets(records(tmp_path, classes=9))
    caplog.set_level(logging.WARNING, "tfdp")
    assert targets(records(tmp_path, "skip", classes=9)) == [1, 2, 4, 5]
    assert "left out 1 examples" in caplog.text


def test_pictures_that_cannot_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bad = [b"no picture", png(picture(1))[:-30], png(picture(1, (3, 3, 1)))]
    write_records(
        tmp_path / "a.tfrecord",
        [example(picture=content, y=i) for i, content in enumerate([png(picture(0)), *bad])],
    )
    with pytest.raises(DataError, match=r"record 1, .*Unknown image file format"):
        targets(records(tmp_path, features=PICTURES))
    caplog.set_level(logging.WARNING, "tfdp")
    assert targets(records(tmp_path, "skip", features=PICTURES)) == [0]
    assert "left out 3 examples" in caplog.text
    assert "a picture is not 2 by 3" in caplog.text


def test_pictures_in_folders(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / "train" / name).mkdir(parents=True)
        (tmp_path / "train" / name / "1.png").write_bytes(png(picture(1)))
    (tmp_path / "train" / "dog" / "2.png").write_bytes(b"")
    (tmp_path / "train" / "dog" / "3.png").write_bytes(png(picture(1, (3, 3, 1))))

    def folder(on_error: str = "fail", **options: Any) -> Any:
        return open_source("image_folder", tmp_path, on_error, channels=1, **options)

    with pytest.raises(DataError, match=r"dog/2.png: .*Unknown image file format|empty"):
        targets(folder(directory="train"))
    assert targets(folder("skip", directory="train")) == [0, 1]
    scaled = folder("skip", directory="train", height=4, width=5)
    assert targets(scaled) == [0, 1, 1]
    (tmp_path / "empty" / "cat").mkdir(parents=True)
    for directory, message in [
        ("absent", "no such folder"),
        ("empty", "cat: has no pictures"),
        ("train/cat", "has no subfolders"),
    ]:
        with pytest.raises(DataError, match=message):
            folder(directory=directory)
    (tmp_path / "other" / "cow").mkdir(parents=True)
    with pytest.raises(DataError, match="'cow' is not among the training classes: cat, dog"):
        folder(directory="train", validation="other")
    with pytest.raises(DataError, match="both height and width"):
        folder(directory="train", height=3)


def test_a_file_that_vanishes(tmp_path: Path) -> None:
    write_good(tmp_path / "a.tfrecord")
    write_good(tmp_path / "b.tfrecord")
    source = records(tmp_path)
    batches = EpochBatches(source, global_batch=4, shuffle=False)
    (tmp_path / "b.tfrecord").unlink()
    with pytest.raises(DataError, match=r"b.tfrecord: the file is gone"), data_errors(source):
        list(batches.dataset)
    with pytest.raises(DataError, match=r"b.tfrecord: cannot be read: No such file"):
        count_records(str(tmp_path / "b.tfrecord"), "")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"files": "*.none"}, DataError, r"\*.none' matches no file"),
        ({"files": "no/*.x"}, DataError, "there is no folder .*/no"),
        ({"files": "{worker}.x"}, DataError, "this run has no workers"),
        ({"target": "z"}, DataError, 'unknown column "z"'),
        ({"features": {"y": "int"}}, ConfigError, 'features.y: unknown type "int"'),
        ({"features": {"y": 3}}, ConfigError, "must be a type"),
        ({"features": {"y": {"type": "image", "shape": [2]}}}, ConfigError, "height, width"),
        ({"features": {"y": {"type": "int64", "size": [2]}}}, ConfigError, 'unknown key "size"'),
        ({"features": {"y": "int64"}}, DataError, "no feature but target"),
        ({"file": "x"}, ConfigError, 'unknown argument of tfrecord "file"; did you mean "files"'),
        ({"classes": 0}, ConfigError, "data.arguments.classes: must be at least 1"),
    ],
)  # fmt: skip
def test_arguments_that_cannot_be(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    write_good(tmp_path / "a.tfrecord", 1)
    with pytest.raises(error, match=message):
        records(tmp_path, **options)


def test_a_missing_argument_is_described(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"arguments.target: is missing \(The column"):
        open_source("csv", tmp_path, files="*.csv")


def test_empty_record_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.tfrecord").touch()
    with pytest.raises(DataError, match=r"all 1 files .* are empty"):
        records(tmp_path)
    write_good(tmp_path / "b.tfrecord")
    caplog.set_level(logging.WARNING, "tfdp")
    assert targets(records(tmp_path)) == [1, 2, 3, 4, 5, 6]
    assert "a.tfrecord is empty" in caplog.text


@pytest.mark.parametrize(
    ("text", "message", "left"),
    [
        ("", "is empty", None),
        ("a,y\n", "no examples", None),
        ("a,b\n1,2\n", 'unknown column "y"', None),
        ("a,y\n1,0\n2\n3,2\n", "line 3: has 1 fields, but the header has 2", [0, 2]),
        ("a,y\n1,0\nnan,1\n3,2\n", "line 3: column 'a' is 'nan', which is not finite", [0, 2]),
        ("a,y\n1,0\n2,\n3,2\n", "line 3: column 'y' is empty; expected int64", [0, 2]),
        ("a,y\n1,0\n2,1x\n3,2\n", "line 3: column 'y' is '1x'; expected int64", [0, 2]),
        (b"a,y\n1,0\n\xff,1\n3,2\n", "line 3: byte 0 is not UTF-8", [0, 2]),
        ('a,y\n1,0\n"2"x,1\n3,2\n', "line 3: ',' expected after '\"'", [0, 2]),
    ],
)
def test_csv_lines(tmp_path: Path, text: Any, message: str, left: list[int] | None) -> None:
    (tmp_path / "a.csv").write_bytes(text if isinstance(text, bytes) else text.encode())

    def source(on_error: str = "fail") -> Any:
        types = {"y": "int64", "a": "float32"}
        return open_source("csv", tmp_path, on_error, files="*.csv", target="y", dtypes=types)

    with pytest.raises(DataError, match=f"a.csv.*{message}"):
        source()
    if left is not None:
        assert targets(source("skip")) == left


def test_csv_types_are_those_of_the_first_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('\ufeffuser,text,"y"\n7,"a, b",1\n\n9,"c\nd",0\n')
    arrays = open_source("csv", tmp_path, files="a.csv", target="y")
    assert arrays.x["user"].tolist() == [7, 9]
    assert arrays.x["user"].dtype == np.int64
    assert arrays.x["text"].tolist() == ["a, b", "c\nd"]
    with pytest.raises(DataError, match=r"column 'text' holds .* cannot be part of a matrix"):
        open_source("csv", tmp_path, files="a.csv", target="y", matrix=True)
    write_csv(tmp_path / "b.csv", range(3))
    with pytest.raises(DataError, match=r'b.csv: unknown column "user"'):
        open_source("csv", tmp_path, files="*.csv", target="y")
    with pytest.raises(ConfigError, match=r'dtypes.y: unknown dtype "int"'):
        open_source("csv", tmp_path, files="*.csv", target="y", dtypes={"y": "int"})


def test_npz_archives(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"

    def load(**options: Any) -> Any:
        return open_source("npz", tmp_path, file="a.npz", **options)

    np.savez(path, x=inputs(range(3)), y=np.arange(3), odd=np.array([{}], object))
    assert load().rows == 3
    with pytest.raises(DataError, match=r'a.npz: unknown column "z" \(known: x, y, odd\)'):
        load(target="z")
    with pytest.raises(DataError, match="cannot be read as a NumPy archive: Object arrays"):
        load(inputs=["odd"])
    np.savez(path, x=inputs([1, np.nan]), y=np.arange(2))
    with pytest.raises(DataError, match=r"a.npz: x has values that are not finite .* row 1"):
        load()
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match="cannot be read as a NumPy archive"):
        load()


def test_parquet_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow
    import pyarrow.parquet

    def write(name: str, **columns: Any) -> None:
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / name)

    def load(**options: Any) -> Any:
        return open_source("parquet", tmp_path, files="*.parquet", target="y", **options)

    write("a.parquet", ids=[[1, 2], [3, 4]], text=["a", "b"], y=[0, 1])
    arrays = load()
    assert arrays.x["ids"].tolist() == [[1, 2], [3, 4]]
    assert arrays.x["text"].tolist() == ["a", "b"]
    write("a.parquet", a=[1.0, None], y=[0, 1])
    with pytest.raises(DataError, match=r"a.parquet: column 'a' has no value in row 1"):
        load()
    write("a.parquet", a=[1.0, 2.0, np.inf], y=[0, 1, 2])
    with pytest.raises(DataError, match=r"a.parquet: column 'a' is inf in row 2, which is not "):
        load()
    monkeypatch.setattr(parquet_module, "_CHUNK_ROWS", 2)
    with pytest.raises(DataError, match=r"a.parquet: column 'a' is inf in row 2, which is not "):
        load()
    assert load(inputs=["y"]).rows == 3
    write("a.parquet", a=[[1], [1, 2]], y=[0, 1])
    with pytest.raises(DataError, match="column 'a' holds lists of different lengths"):
        load()
    write("a.parquet", a=[1.0], y=[0])
    write("b.parquet", a=["text"], y=[0])
    with pytest.raises(DataError, match=r"b.parquet: column 'a' holds <U4 .* but in .*a.parquet"):
        load()
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"b.parquet: cannot be read as Parquet"):
        load()
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"parquet needs pyarrow.*\n.*tfdp.parquet"):
        load()


def test_tables_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """The same rows as in memory, and the same errors, a few lines at a time."""
    monkeypatch.setattr(csv_module, "_CHUNK_LINES", 4)
    path = tmp_path / "a.csv"
    lines = [f"{i},text {i},{i / 2},{i % 3}" for i in range(11)]

    def load(on_error: str = "fail", **options: Any) -> Any:
        return open_source("csv", tmp_path, on_error, files="a.csv", target="y", **options)

    def written() -> int:
        return len(list((tmp_path / "kept").iterdir()))

    path.write_text("\n".join(["i,text,half,y", *lines]))
    in_memory = load(dtypes={"half": "float32"})
    on_disk = load(dtypes={"half": "float32"}, on_disk="kept")
    x, y = on_disk.read({"at": np.arange(11)})
    assert list(x) == list(in_memory.x) == ["i", "text", "half"]
    assert [text.decode() for text in x["text"].numpy()] == in_memory.x["text"].tolist()
    np.testing.assert_array_equal(x["i"], in_memory.x["i"])
    np.testing.assert_array_equal(x["half"], in_memory.x["half"])
    np.testing.assert_array_equal(y, in_memory.y)
    assert written() == 1
    load(dtypes={"half": "float32"}, on_disk="kept")
    assert written() == 1  # and not again

    path.write_text("\n".join(["i,text,half,y", *lines[:9], "9,nine,zero,1"]))
    with pytest.raises(DataError, match=r"a.csv, line 11: column 'half' is 'zero'; expected float"):
        load(on_disk="kept")
    assert written() == 1
    kept = load("skip", on_disk="kept")
    assert kept.rows == 9
    assert "left out 1 lines" in caplog.text
    path.write_text("a,y\n" + "1,0\n" * 5 + "1.5,0\n")
    assert load().x.tolist() == [1, 1, 1, 1, 1, 1.5]
    path.write_text("y,a\n" + "1,0\n" * 5 + "1.5,0\n")
    with pytest.raises(
        DataError, match=r"'y' holds float32 from row 4 on, but int64 before.\n.*y: float64"
    ):
        load(on_disk="kept")
    path.write_text("a,y\nx,0\n")
    with pytest.raises(DataError, match="there are no examples"):
        load("skip", on_disk="kept", dtypes={"a": "int64"})
    assert written() == 2


def test_an_error_inside_tensorflow_that_is_no_bad_example_passes() -> None:
    with pytest.raises(DataError, match="mine"), data_errors():
        raise tf.errors.InvalidArgumentError(None, None, "mine")
