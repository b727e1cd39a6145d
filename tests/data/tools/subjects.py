"""Small data sets for the tests of the tools, and what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from tests.data.originals import write_originals
from tfdp.config import DataConfig
from tfdp.data.tools.subject import Subject


def pictures(folder: Path, rows: int, **settings: Any) -> Subject:
    """Random pictures in the original files of Fashion-MNIST."""
    write_originals(folder / "idx", train=rows, test=7)
    data = DataConfig(name="fashion_mnist", arguments={"directory": "idx"}, **settings)
    return Subject(data, folder)


def write_numbers(file: Path, numbers: Sequence[int]) -> None:
    """A TFRecord file of one number in each record."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(file)) as writer:
        for number in numbers:
            values = tf.train.Int64List(value=[number])
            feature = {
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=[number / 2])),
                "label": tf.train.Feature(int64_list=values),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())


def numbers(folder: Path, pattern: str, **settings: Any) -> Subject:
    """What `write_numbers` has written."""
    arguments = {"files": pattern, "features": {"x": "float32", "label": "int64"}}
    return Subject(DataConfig(name="tfrecord", arguments=arguments, **settings), folder)
