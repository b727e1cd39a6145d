"""All examples of a source read once, in its own order."""

from __future__ import annotations

from collections.abc import Iterator
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


def materialize(source: Source) -> Arrays:
    """The rows of a source as arrays in memory.

    Raises:
      DataError: an example cannot be read, its shape is not that of the others, or there are none.
    """
    structure, batches = all_batches(source)
    columns: list[np.ndarray] = []
    rows = 0
    for leaves in batches:
        count = len(leaves[0])
        if not columns:  # made at once, so that none is ever in memory twice
            columns = [np.empty((source.rows, *leaf.shape[1:]), leaf.dtype) for leaf in leaves]
        for column, leaf in zip(columns, leaves, strict=True):
            column[rows : rows + count] = leaf
        rows += count
    if not columns:
        raise DataError(f"{source.place}: there are no examples.")
    packed = tf.nest.pack_sequence_as(structure, [_text(column) for column in columns])
    return rows_of(tuple(packed), source.place, source.per_worker)


def all_batches(source: Source) -> tuple[Any, Iterator[list[np.ndarray]]]:
    """The types of a batch, and the leaves of one batch after the other, as `source.read` gives
    them.

    Raises:
      DataError: an example cannot be read, or examples have no fixed shape.
    """
    order = Order(batch=_BATCH, shuffle=False)
    batches = ticket_batches(source, order, Position()).map(
        source.read, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )
    options = tf.data.Options()
    options.autotune.enabled = False
    batches = batches.with_options(options)
    for leaf in tf.nest.flatten(batches.element_spec):
        if not leaf.shape[1:].is_fully_defined():
            raise DataError(
                f"{source.place}: examples of shape {leaf.shape[1:]} have no fixed size, and "
                "cannot be held in memory or in a cache."
            )

    def leaves() -> Iterator[list[np.ndarray]]:
        with data_errors(source):
            for batch in batches.as_numpy_iterator():
                yield [np.asarray(leaf) for leaf in tf.nest.flatten(batch)]

    return batches.element_spec, leaves()


def _text(column: np.ndarray) -> np.ndarray:
    return column.astype(np.bytes_) if column.dtype == object else column
