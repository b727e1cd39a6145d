"""All examples of a source read once, into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfdp.data.arrays import Arrays, rows_of
from tfdp.data.failures import data_errors
from tfdp.data.order import Order, Position
from tfdp.data.sources.base import Source
from tfdp.data.tickets import ticket_batches
from tfdp.errors import DataError

_BATCH = 256

MakeColumn = Callable[[int, tuple[int, ...], np.dtype], np.ndarray]
"""`make(number of the column, shape, dtype)`: where a column is put."""


def materialize(source: Source) -> Arrays:
    """The rows of a source in its own order, as arrays.

    Raises:
      DataError: an example cannot be read, or its shape is not that of the others.
    """
    columns, structure = read_columns(source, lambda i, shape, dtype: np.empty(shape, dtype))
    parts = tf.nest.pack_sequence_as(structure, [_text(column) for column in columns])
    return rows_of(tuple(parts), source.place, source.per_worker)


def read_columns(source: Source, make: MakeColumn) -> tuple[list[np.ndarray], Any]:
    """Reads a source from its first to its last example.

    Args:
      source: what to read.
      make: makes the memory of each column, once its number of rows is known.

    Returns:
      The columns, flat, and the structure of an element.

    Raises:
      DataError: as `materialize`, or there are no examples.
    """
    order = Order(batch=_BATCH, shuffle=False)
    batches = ticket_batches(source, order, Position()).map(
        source.read, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )
    options = tf.data.Options()
    options.autotune.enabled = False
    batches = batches.with_options(options)
    spec = batches.element_spec
    for leaf in tf.nest.flatten(spec):
        if not leaf.shape[1:].is_fully_defined():
            raise DataError(
                f"{source.place}: examples of shape {leaf.shape[1:]} have no fixed size, and "
                "cannot be held in memory or in a cache."
            )
    with data_errors(source):
        return _fill(source, batches, make), spec


def _fill(source: Source, batches: tf.data.Dataset, make: MakeColumn) -> list[np.ndarray]:
    parts: list[list[np.ndarray]] = []
    columns: list[np.ndarray] | None = None
    rows = 0
    for leaves in _flat(batches):
        count = len(leaves[0])
        if source.rows is None:
            parts.append(leaves)
        else:
            if columns is None:
                columns = [
                    make(i, (source.rows, *leaf.shape[1:]), leaf.dtype)
                    for i, leaf in enumerate(leaves)
                ]
            for column, leaf in zip(columns, leaves, strict=True):
                column[rows : rows + count] = leaf
        rows += count
    if rows == 0:
        raise DataError(f"{source.place}: there are no examples.")
    if columns is not None:
        return columns
    columns = []
    for i, leaf in enumerate(parts[0]):
        column = make(i, (rows, *leaf.shape[1:]), leaf.dtype)
        np.concatenate([part[i] for part in parts], out=column)
        columns.append(column)
    return columns


def _flat(batches: tf.data.Dataset) -> Iterator[list[np.ndarray]]:
    for batch in batches.as_numpy_iterator():
        yield [np.asarray(leaf) for leaf in tf.nest.flatten(batch)]


def _text(column: np.ndarray) -> np.ndarray:
    return column.astype(np.bytes_) if column.dtype == object else column
