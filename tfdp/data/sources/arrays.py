"""Rows in memory."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfdp.data.arrays import Arrays
from tfdp.data.sources.base import RowSource, Tickets

_MOVABLE_BYTES = 2**30
"""TensorFlow sends the rows as a part of the data set's graph, which may not exceed 2 GiB."""


class ArraySource(RowSource):
    """The rows of `tfdp.data.arrays.Arrays`, which have been checked there."""

    def __init__(self, arrays: Arrays) -> None:
        self.place = arrays.place
        self.per_worker = arrays.per_worker
        self._rows = arrays.rows
        columns: tuple[Any, ...] = (arrays.x, arrays.y)
        if arrays.sample_weight is not None:
            columns = (*columns, arrays.sample_weight)
        # tf.data runs on the host: there, arrays cost no copies.
        with tf.device("CPU:0"):
            self._columns = tf.nest.map_structure(tf.constant, columns)

        size = sum(leaf.dtype.size * int(tf.size(leaf)) for leaf in tf.nest.flatten(self._columns))
        if size > _MOVABLE_BYTES:
            self.stays = (
                f"its {size >> 20} MiB would have to be sent to every worker of the service"
            )

    @property
    def rows(self) -> int:
        return self._rows

    def read(self, tickets: Tickets) -> tuple[Any, ...]:
        at = tickets["at"]
        columns = tf.nest.map_structure(lambda column: tf.gather(column, at), self._columns)
        return tuple(columns)
