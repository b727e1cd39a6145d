"""Small data sets on disk, one for each kind of source, with the same examples in all.

Example i has the target i. Its input is the three numbers i, i / 2 and 0, or a picture of the grey
level i.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfdp.data.arrays import Arrays
from tfdp.data.builder import as_training_data
from tfdp.data.sources.base import Source
from tfdp.data.sources.registry import Context, load_source

ROWS = 23

NUMBERS = {"x": {"type": "float32", "shape": [3]}, "y": "int64"}
PICTURES = {"picture": {"type": "image", "shape": [2, 3, 1]}, "y": "int64"}


def inputs(rows: Sequence[int]) -> np.ndarray:
    i = np.asarray(rows, np.float32)
    return np.stack([i, i / 2, 0 * i], axis=1)


def open_source(name: str, folder: Path, on_error: str = "fail", **arguments: Any) -> Any:
    """The training examples of a named source."""
    return load_source(name, arguments, Context(folder, None, on_error)).train


def example(**features: Any) -> bytes:
    """A serialized `tf.train.Example`."""

    def feature(value: Any) -> tf.train.Feature:
        if isinstance(value, bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        if isinstance(value, (int, np.integer)):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
        return tf.train.Feature(float_list=tf.train.FloatList(value=value))

    named = {name: feature(value) for name, value in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=named)).SerializeToString()


def write_records(path: Path, records: Sequence[bytes], compression: str = "") -> None:
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(record)


def picture(level: int, shape: tuple[int, int, int] = (2, 3, 1)) -> np.ndarray:
    return np.full(shape, level, np.uint8)


def npz(folder: Path) -> Any:
    np.savez(folder / "rows.npz", x=inputs(range(ROWS)), y=np.arange(ROWS))
    return open_source("npz", folder, file="rows.npz")


def _split(folder: Path) -> list[tuple[Path, range]]:
    """Three files with 16, 0 and the other rows."""
    return [(folder / "0", range(16)), (folder / "1", range(0)), (folder / "2", range(16, ROWS))]


def csv_files(folder: Path, **options: Any) -> Any:
    for path, rows in _split(folder):
        if rows:
            write_csv(path.with_suffix(".csv"), rows)
    return open_source("csv", folder, files="*.csv", target="y", **options)


def csv_on_disk(folder: Path) -> Any:
    # The first file's numbers look whole: on disk a column has one type from the start.
    return csv_files(folder, on_disk="columns", dtypes=dict.fromkeys("abc", "float32"))


def write_csv(path: Path, rows: Sequence[int]) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["a", "b", "c", "y"])
        writer.writerows([*map(str, x), i] for x, i in zip(inputs(rows), rows, strict=True))


def parquet(folder: Path, **options: Any) -> Any:
    import pyarrow
    import pyarrow.parquet

    for path, rows in _split(folder):
        x = inputs(rows).reshape(-1, 3)
        columns = {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": np.asarray(rows, np.int64)}
        pyarrow.parquet.write_table(pyarrow.table(columns), path.with_suffix(".parquet"))
    return open_source("parquet", folder, files="*.parquet", target="y", **options)


def parquet_on_disk(folder: Path) -> Any:
    return parquet(folder, on_disk="columns")


def tfrecord(folder: Path) -> Any:
    for path, rows in _split(folder):
        records = [example(x=inputs([i])[0], y=i) for i in rows]
        write_records(path.with_suffix(".tfrecord"), records)
    return open_source("tfrecord", folder, files="*.tfrecord", features=NUMBERS, target="y")


def tfrecord_gzip(folder: Path) -> Any:
    for path, rows in _split(folder):
        content = [example(picture=png(picture(i)), y=i) for i in rows]
        write_records(path.with_suffix(".gz"), content, "GZIP")
    return open_source("tfrecord", folder, files="*.gz", features=PICTURES, target="y")


def png(pixels: np.ndarray) -> bytes:
    encoded: bytes = tf.io.encode_png(pixels).numpy()
    return encoded


def image_folder(folder: Path) -> Any:
    for i in range(ROWS):
        (folder / f"{i:02}").mkdir()
        (folder / f"{i:02}" / "one.png").write_bytes(png(picture(i)))
    return open_source("image_folder", folder, directory=".", channels=1)


def frame(folder: Path) -> Any:
    import pandas

    del folder
    x = pandas.DataFrame(inputs(range(ROWS)), columns=["a", "b", "c"])
    return as_training_data((x, pandas.Series(np.arange(ROWS))), source="m:f").train


@dataclass(frozen=True)
class Case:
    """A source, and what its examples look like."""

    make: Callable[[Path], Arrays | Source]
    pictures: bool = False


CASES = {
    "npz": Case(npz),
    "csv": Case(csv_files),
    "parquet": Case(parquet),
    "csv_on_disk": Case(csv_on_disk),
    "parquet_on_disk": Case(parquet_on_disk),
    "tfrecord": Case(tfrecord),
    "tfrecord_gzip": Case(tfrecord_gzip, pictures=True),
    "image_folder": Case(image_folder, pictures=True),
    "frame": Case(frame),
}
