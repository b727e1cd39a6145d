"""What is read once, in memory or in files, is what would be read anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.sources.written import CASES, NUMBERS, ROWS, example, open_source, write_records
from tests.data.streams import NumberStream
from tfdp.data import cache, column_files
from tfdp.data.batches import EpochBatches
from tfdp.data.cache import cached
from tfdp.data.column_files import ColumnFiles
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
    assert isinstance(kept, ArraySource if where == "memory" else ColumnFiles)
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
        patch.setattr(cache, "write_columns", None)
        cached(source, "kept", tmp_path)
    (folder / "1.bin").write_bytes(b"short")
    with pytest.raises(DataError, match=f"1.bin: should have {8 * ROWS} bytes.\nIt is damaged"):
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
    opened = Path.open
    monkeypatch.setattr(
        Path,
        "open",
        lambda path, *mode, **options: opened(
            Path("/dev/full") if path.suffix == ".bin" else path, *mode, **options
        ),
    )
    with pytest.raises(DataError, match=r"cannot be written: No space left.*\nMake room"):
        cached(source, "kept", tmp_path)
    assert list((tmp_path / "kept").iterdir()) == []


def test_text_of_any_length(tmp_path: Path) -> None:
    texts = [b"text", b"", "é".encode() * 300]
    records = [example(x=text, y=i) for i, text in enumerate(texts)]
    write_records(tmp_path / "a.tfrecord", records)
    kinds = {"x": "string", "y": "int64"}
    source = open_source("tfrecord", tmp_path, files="*.tfrecord", features=kinds, target="y")
    for where in ("memory", "kept"):
        ((x, y),) = elements(cached(source, where, tmp_path), shuffle=False)
        assert (x.tolist(), y.tolist()) == (texts, [0, 1, 2])
        shuffled = elements(cached(source, where, tmp_path), seed=5)
        assert {int(y): x for x, y in zip(*shuffled[0], strict=True)} == dict(enumerate(texts))


def test_several_texts_in_a_row(tmp_path: Path) -> None:
    words = np.array([["a", "bc"], ["", "def"], ["g", ""]])
    column_files.write_columns(tmp_path / "c", [[words[:1], np.arange(1)], [words[1:], np.ones(2)]])
    rows = ColumnFiles(tmp_path / "c", (0, 0), "here")
    x, _ = rows.read({"at": np.array([2, 0, 1])})
    assert x.shape == (3, 2)
    assert x.numpy().tolist() == [[b"g", b""], [b"a", b"bc"], [b"", b"def"]]


def test_what_has_no_files_is_not_cached_in_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no files, and is not cached in files"):
        cached(NumberStream([3]), "kept", tmp_path)
