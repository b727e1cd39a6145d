"""Made-up examples in files of every kind, for measuring."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tfdp.config import DataConfig
from tfdp.config.suggest import unknown
from tfdp.data.arrays import Arrays
from tfdp.data.sources.arrays import ArraySource
from tfdp.data.tools.encoding import schema_of
from tfdp.data.tools.shards import batches_of, plan_shards, write_shard
from tfdp.errors import ConfigError

_SIDE = 28
_CLASSES = 10
_COLUMNS = 8
_SHARDS = 8
_MOST_FILES = 5_000
_BY_FILE = "tfrecord_by_file"


def make_data(kind: str, rows: int, folder: Path) -> DataConfig:
    """Writes examples into a folder, and says how a config reads them.

    Args:
      kind: one of `KINDS`.
      rows: how many examples; of image_folder at most 5,000, each in a file of its own.
      folder: exists, and is empty.

    Raises:
      ConfigError: no such kind.
    """
    if kind not in KINDS:
        raise ConfigError(unknown(kind, KINDS, what="kind of made-up data"))
    arguments = KINDS[kind](rows, folder)
    if kind == _BY_FILE:
        return DataConfig(name="tfrecord", arguments=arguments, shard="file")
    return DataConfig(name=kind, arguments=arguments)


def _pictures(rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (rows, _SIDE, _SIDE), np.uint8)
    return pictures, rng.integers(0, _CLASSES, rows)


def _npz(rows: int, folder: Path) -> dict[str, Any]:
    x, y = _pictures(rows)
    np.savez(folder / "data.npz", x=x, y=y)
    return {"file": str(folder / "data.npz")}


def _tfrecord(rows: int, folder: Path) -> dict[str, Any]:
    source = ArraySource(Arrays(*_pictures(rows)))
    schema = schema_of(batches_of(source, 0, 1).element_spec, "made-up data")
    for shard in plan_shards(rows, min(_SHARDS, rows)):
        write_shard(source, schema, shard, folder, lambda count: None)
    return {"files": str(folder / "part-*"), **schema.arguments()}


def _csv(rows: int, folder: Path) -> dict[str, Any]:
    names, values, label = _table(rows)
    with (folder / "data.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "label"])
        writer.writerows([*map(float, row), int(y)] for row, y in zip(values, label, strict=True))
    return {"files": str(folder / "data.csv"), "target": "label"}


def _parquet(rows: int, folder: Path) -> dict[str, Any]:
    import pyarrow
    import pyarrow.parquet

    names, values, label = _table(rows)
    columns = {name: values[:, number] for number, name in enumerate(names)}
    table = pyarrow.table({**columns, "label": label})
    pyarrow.parquet.write_table(table, folder / "data.parquet")
    return {"files": str(folder / "data.parquet"), "target": "label"}


def _image_folder(rows: int, folder: Path) -> dict[str, Any]:
    x, y = _pictures(min(rows, _MOST_FILES))
    for label in range(_CLASSES):
        (folder / f"class{label}").mkdir()
    for number, (picture, label) in enumerate(zip(x, y, strict=True)):
        encoded = tf.io.encode_png(picture[:, :, None]).numpy()
        (folder / f"class{label}" / f"{number}.png").write_bytes(encoded)
    return {"directory": str(folder), "channels": 1}


def _table(rows: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(rows, _COLUMNS)).astype(np.float32)
    return [f"c{number}" for number in range(_COLUMNS)], values, rng.integers(0, _CLASSES, rows)


KINDS: Final[dict[str, Callable[[int, Path], dict[str, Any]]]] = {
    "npz": _npz,
    "csv": _csv,
    "parquet": _parquet,
    "tfrecord": _tfrecord,
    _BY_FILE: _tfrecord,
    "image_folder": _image_folder,
}
"""Names of sources, each with what writes examples for it; one is there twice, as each pipeline
may parse its part of all records, or read files of its own."""
