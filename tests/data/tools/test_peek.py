"""What is shown of a source, against NumPy."""

from __future__ import annotations

import io
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from rich.console import Console

from tests.data.originals import write_originals
from tests.data.tools.subjects import pictures
from tfdp.config import DataConfig
from tfdp.data.tools.drawing import as_bytes, as_characters, as_half_blocks, grid, is_picture
from tfdp.data.tools.peek import peek
from tfdp.data.tools.peek_report import describe, save, show
from tfdp.data.tools.statistics import Column
from tfdp.data.tools.subject import Subject
from tfdp.errors import DataError, RunError

PROGRAM = """
import numpy as np
import tensorflow as tf

def gaps(rows):
    x = np.arange(rows, dtype="float32")
    x[1::3] = np.nan
    text = np.array(["a", "", "b"] * (rows // 3))
    columns = ({"x": x, "text": text}, np.arange(rows) % 2)
    return tf.data.Dataset.from_tensor_slices(columns).batch(4)
"""


def test_pictures(tmp_path: Path) -> None:
    found = peek(pictures(tmp_path, 40), "train", 3, 25)
    x, y, _, _ = write_originals(tmp_path / "again", train=40, test=7)
    assert (found.rows, found.looked_at) == (40, 25)
    for row, example in enumerate(found.examples):
        np.testing.assert_array_equal(example["x"], x[row])
        assert example["y"] == y[row]
    images, labels = found.columns
    assert (images.dtype, images.shape, images.rows) == ("uint8", (28, 28), 25)
    assert (images.least, images.most) == (x[:25].min(), x[:25].max())
    assert images.mean == pytest.approx(x[:25].mean())
    assert labels.classes == Counter(y[:25].tolist())
    everything = peek(pictures(tmp_path, 40), "train", 3, 0)
    assert everything.columns[0].mean == pytest.approx(x.mean())


def test_missing_values_and_text(tmp_path: Path) -> None:
    (tmp_path / "peeked_program.py").write_text(PROGRAM)
    data = DataConfig(function="peeked_program:gaps", arguments={"rows": 9})
    try:
        found = peek(Subject(data, tmp_path), "train", 2, 0)
    finally:
        sys.modules.pop("peeked_program", None)
    columns = {column.name: column for column in found.columns}
    assert (columns["x.x"].missing, columns["x.text"].missing) == (3, 3)
    assert (columns["x.x"].least, columns["x.x"].most) == (0, 8)
    assert columns["x.x"].mean == np.mean([0, 2, 3, 5, 6, 8])
    assert columns["x.text"].classes == {"a": 3, "": 3, "b": 3}
    assert describe(found.examples[0]["x.text"]) == "text 'a'"
    output = io.StringIO()
    show(found, Console(file=output, width=100))
    assert "values of y: 0: 5, 1: 4" in output.getvalue()


def test_shapes_that_differ() -> None:
    column = Column("x")
    column.add(np.zeros((2, 3, 4)))
    column.add(np.zeros((2, 5, 4)))
    assert (column.shape, column.rows) == ((None, 4), 4)


def test_a_drawing_has_the_grey_levels() -> None:
    picture = np.zeros((8, 6), np.uint8)
    picture[:4, :3] = 255
    picture[4:, 3:] = 128
    assert as_characters(picture) == ["@@@   ", "@@@   ", "   +++", "   +++"]


def test_half_blocks_are_pairs_of_pixels() -> None:
    picture = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    segments = as_half_blocks(picture)
    assert [segment.text for segment in segments] == [*("\u2580" * 5), "\n"] * 2
    style = segments[6 + 2].style  # second line, third column: rows 2 and 3
    assert style is not None
    for colour, row in ((style.color, 2), (style.bgcolor, 3)):
        assert colour is not None
        assert tuple(colour.get_truecolor()) == tuple(picture[row, 2])


def test_what_is_a_picture() -> None:
    assert is_picture(np.zeros((28, 28), np.uint8))
    assert is_picture(np.zeros((8, 9, 3), np.float32))
    assert not is_picture(np.zeros((28, 28), np.int64))
    assert not is_picture(np.zeros((28,), np.uint8))
    assert not is_picture(np.zeros((28, 28, 7), np.uint8))
    stretched = as_bytes(np.array([[0.0, 0.5], [1.0, np.nan]]))
    np.testing.assert_array_equal(stretched[:, :, 0], [[0, 128], [255, 0]])


def test_saved_pictures(tmp_path: Path) -> None:
    found = peek(pictures(tmp_path, 12), "train", 10, 10)
    assert save(found, tmp_path / "p.png") == 10
    canvas = tf.io.decode_png((tmp_path / "p.png").read_bytes()).numpy()
    assert canvas.shape == (2 * 30 - 2, 8 * 30 - 2, 3)
    x, *_ = write_originals(tmp_path / "again", train=12, test=7)
    for row in range(10):
        top, left = row // 8 * 30, row % 8 * 30
        tile = canvas[top : top + 28, left : left + 28]
        np.testing.assert_array_equal(tile, np.repeat(x[row][:, :, None], 3, axis=2))
    assert (canvas[28:30] == 255).all()
    assert grid([x[0]]).shape == (28, 28, 3)
    with pytest.raises(RunError, match="cannot be written"):
        save(found, tmp_path / "nowhere" / "p.png")


def test_nothing_to_save(tmp_path: Path) -> None:
    (tmp_path / "peeked_program.py").write_text(PROGRAM)
    data = DataConfig(function="peeked_program:gaps", arguments={"rows": 9})
    try:
        found = peek(Subject(data, tmp_path), "train", 2, 2)
    finally:
        sys.modules.pop("peeked_program", None)
    with pytest.raises(DataError, match="no column holds pictures"):
        save(found, tmp_path / "p.png")
