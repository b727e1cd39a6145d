"""A few examples of a source, and statistics of many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfdp.data.tools.shards import batches_of, source_of
from tfdp.data.tools.statistics import Column
from tfdp.data.tools.subject import Subject
from tfdp.errors import DataError


@dataclass(frozen=True)
class Peek:
    """What was seen.

    Attributes:
      place: what the examples are called.
      rows: how many examples there are; None where that is not known.
      looked_at: how many the statistics are of.
      examples: the first few, each a value by column.
      columns: the statistics.
    """

    place: str
    rows: int | None
    looked_at: int
    examples: list[dict[str, np.ndarray]]
    columns: list[Column]


def peek(subject: Subject, part: str, examples: int, most: int) -> Peek:
    """Reads the first examples, as they are: not scaled, not transformed, not shuffled.

    Args:
      subject: the data.
      part: "train" or "validation".
      examples: how many to keep.
      most: how many to look at for the statistics; 0: all.

    Raises:
      ConfigError, DataError: the data cannot be loaded or read.
    """
    found = subject.part(part)
    if isinstance(found, tf.data.Dataset):
        batches, rows, place = found, None, f"{part} data of {subject.data.function}"
        if not most and int(found.cardinality()) == tf.data.INFINITE_CARDINALITY:
            raise DataError(f"{place}: never ends, so not all of it can be looked at.")
    else:
        source = source_of(found)
        rows, place = source.rows, source.place
        batches = batches_of(source, 0, min(rows, max(most, examples)) if most else rows)
    kept: list[dict[str, np.ndarray]] = []
    columns: dict[str, Column] = {}
    seen = 0
    for batch in _batches(batches, place):
        named = _named(batch)
        here = len(next(iter(named.values())))
        if most:
            here = min(here, max(most, examples) - seen)
        for name, values in named.items():
            columns.setdefault(name, Column(name)).add(values[:here])
        wanted = min(here, examples - len(kept))
        kept += [
            {name: np.asarray(values[row]) for name, values in named.items()}
            for row in range(wanted)
        ]
        seen += here
        if most and seen >= most and len(kept) >= examples:
            break
    return Peek(place, rows, seen, kept, list(columns.values()))


def _batches(dataset: tf.data.Dataset, place: str) -> Iterator[Any]:
    try:
        yield from dataset
    except tf.errors.OpError as error:
        text = str(error.message).strip().splitlines()[0]
        raise DataError(f"{place}: cannot be read: {text}") from error


def _named(batch: Any) -> dict[str, np.ndarray]:
    """Columns by name: x, or its own names where it is a dict; y; weight."""
    named: dict[str, np.ndarray] = {}
    for part, value in zip(("x", "y", "weight"), batch, strict=False):
        leaves = value if isinstance(value, Mapping) else {None: value}
        if not isinstance(value, (Mapping, tf.Tensor, tf.RaggedTensor, tf.SparseTensor)):
            leaves = dict(enumerate(tf.nest.flatten(value)))
        for key, leaf in leaves.items():
            named[part if key is None else f"{part}.{key}"] = _dense(leaf)
    return named


def _dense(leaf: Any) -> np.ndarray:
    if isinstance(leaf, tf.RaggedTensor):
        leaf = leaf.to_tensor()
    if isinstance(leaf, tf.SparseTensor):
        leaf = tf.sparse.to_dense(leaf)
    return np.asarray(leaf)
