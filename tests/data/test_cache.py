"""What is read once, in memory or in files, is what would be read anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.sources.written import CASES, NUMBERS, ROWS, example, open_source, write_records
from tests.data.streams import NumberStream
from tfdp.data import cache
from tfdp.data.batches import EpochBatches
from tfdp.data.cache import CachedRows, cached
from tfdp.data.sources.arrays import ArraySource
from tfdp.errors import DataError


def elements(source: Any, **options: Any) -> list[Any]:
    return list(EpochBatches(source, global_batch=5, **options).dataset.as_numpy_iterator())


@pytest.mark.parametrize(
    ("name", "where"),
    [("tfrecord", "kept"), ("tfrecord_gzip", "memory"), ("image_folder", "kept")],
)
def test_cached_examples_are_the_same(tmp_path: Path, name: str, where: str) -> None:
    (tmp_path / "data").mkdir()
    source: Any = CASES[name].make(tmp_path / "data")
    expected = elements(source, shuffle=False)
    kept = cached(source, where, tmp_path / "run")
    assert isinstance(kept, ArraySource if where == "memory" else CachedRows)
    assert kept.rows == ROWS
    assert kept.classes == source.classes
    for (x, y), (x_kept, y_kept) in zip(expected, elements(kept, shuffle=False), strict=True):
        np.testing.assert_array_equal(x, x_kept)
        np.testing.assert_array_equal(y, y_kept)
    order = [int(i) for _, y in elements(kept, seed=3) for i in y]
    assert sorted(order) == list(range(ROWS)) != order


def test_files_are_written_once_for_each_state_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    source: Any = CASES["tfrecord"].make(tmp_path / "data")
    cached(source, "kept", tmp_path)
    (folder,) = (tmp_path / "kept").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_write", None)
        cached(source, "kept", tmp_path)
    (folder / "1.bin").write_bytes(b"short")
    with pytest.raises(DataError, match=f"1.bin: should have {8 * ROWS} bytes.\nThe cache is dam"):
        cached(source, "kept", tmp_path)
    write_records(tmp_path / "data" / "2.tfrecord", [example(x=[1.0, 2.0, 3.0], y=7)])
    changed = open_source(
        "tfrecord", tmp_path / "data", files="*.tfrecord", features=NUMBERS, target="y"
    )
    assert cached(changed, "kept", tmp_path).rows == 17
    assert len(list((tmp_path / "kept").iterdir())) == 2


def test_a_full_disk_is_named_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    source: Any = CASES["tfrecord"].make(tmp_path / "data")
    write = cache._append
    monkeypatch.setattr(
        cache, "_append", lambda batches, paths: write(batches, [Path("/dev/full")] * len(paths))
    )
    with pytest.raises(DataError, match=r"cache cannot be written: No space left.*\nMake room"):
        cached(source, "kept", tmp_path)
    assert list((tmp_path / "kept").iterdir()) == []


def test_what_cannot_be_cached_is_refused(tmp_path: Path) -> None:
    write_records(tmp_path / "a.tfrecord", [example(x=b"text", y=7)])
    text = {"x": "string", "y": "int64"}
    source = open_source("tfrecord", tmp_path, files="*.tfrecord", features=text, target="y")
    with pytest.raises(DataError, match=r"text is not cached in files; set data.cache: memory"):
        cached(source, "kept", tmp_path)
    assert elements(cached(source, "memory", tmp_path))[0][0].tolist() == [b"text"]
    with pytest.raises(DataError, match="has no files, and is not cached in files"):
        cached(NumberStream([3]), "kept", tmp_path)
