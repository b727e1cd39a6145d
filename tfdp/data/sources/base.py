"""What a source of examples is, so that its work can be shared out before it is done.

The order of an epoch is a sequence of *tickets*, one for each example: cheap to make, cheap to
carry. The global batches of tickets are cut into the replicas' pieces, and only then `Source.read`
turns the tickets of a piece into examples: reads rows, parses, decodes. There are two kinds:

- `RowSource`: examples with numbers, any of which can be read at any time. The ticket is the
  number, and an epoch's order is a permutation of all numbers.
- `StreamSource`: serialized examples in files that are read from front to back. The ticket carries
  the serialized example; every worker reads the bytes of all files, and parses its own alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tfdp.data.digest import batch_digest

Tickets: TypeAlias = dict[str, tf.Tensor]
"""The tickets of a batch, or of a piece of one:

- ``at``: `(n,)` int64, where the example stands: the row of a row source, or the place in a file
  of a stream. `Source.where` says it in words.
- ``number``: `(n,)` int64, the example's number in its epoch, from 0.
- ``epoch``: scalar int64.
- ``record``: `(n,)` string, the serialized example, of streams only.
- ``weight``: `(n,)` float32, only where the last batch is padded.
"""

_SAMPLED_ROWS = 64


class Source(ABC):
    """Examples that can be told apart, counted and read.

    Attributes:
      place: what to call the examples in messages, such as "training data".
      classes: how many classes the labels tell apart, where the source knows.
      per_worker: whether each worker's examples are its own.
      stays: why `read` cannot run in another process (tf.data service), or "" if it can.
    """

    place: str = "training data"
    classes: int | None = None
    per_worker: bool = False
    stays: str = ""

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many examples there are, at least one; a stream may have to look for the number."""

    @abstractmethod
    def read(self, tickets: Tickets) -> tuple[Any, ...]:
        """The examples of some tickets; called while a tf.data function is traced.

        Returns:
          `(x, y)` or `(x, y, sample_weight)`, each a tensor or a dict of tensors whose first axis
          is that of the tickets. uint8 images are scaled later.
        """

    @abstractmethod
    def where(self, at: int) -> str:
        """The place of an example in words, as in "row 3" or "a.tfrecord, record 3"."""

    def describe(self) -> str:
        """How the files of the source are read, for the name of its cache."""
        return type(self).__name__

    @abstractmethod
    def fingerprint(self) -> int:
        """A number below 2**31 that differs, almost surely, where the examples differ."""


class RowSource(Source):
    """Examples that can be read in any order by their number."""

    def where(self, at: int) -> str:
        return f"{self.place}, row {at}"

    def fingerprint(self) -> int:
        """Digest of the number of rows and of some rows, spread evenly."""
        some = np.unique(np.linspace(0, self.rows - 1, _SAMPLED_ROWS).astype(np.int64))
        with tf.device("CPU:0"):
            at = tf.constant(some)
            columns = self.read({"at": at, "number": at, "epoch": tf.constant(0, tf.int64)})
        leaves = [leaf.numpy() for leaf in tf.nest.flatten(columns)]
        return batch_digest([np.asarray(self.rows), *leaves])


class StreamSource(Source):
    """Serialized examples in segments: files, or parts of files, read from front to back.

    Attributes:
      segments: how many segments there are, at least one.
      files: the files that the segments are part of.
    """

    segments: int
    files: Sequence[str] = ()
    stays = "it is read from front to back, and only rows that can be read in any order move"

    @abstractmethod
    def records(self, segment: tf.Tensor) -> tf.data.Dataset:
        """The examples of one segment in their order.

        Args:
          segment: scalar int64 tensor, below `segments`.

        Returns:
          A data set of `(at, record)`: scalar int64 and scalar string.
        """

    @abstractmethod
    def file_of(self, segment: int) -> str:
        """The file that a segment is part of."""

    @abstractmethod
    def count(self, segment: int) -> int:
        """How many examples a segment has; may have to look into its file, once."""

    @property
    def rows(self) -> int:
        return sum(self.count(segment) for segment in range(self.segments))
