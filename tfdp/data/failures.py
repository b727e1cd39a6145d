"""Errors of tf.data, told as what is wrong with which file or row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import tensorflow as tf

from tfdp.data.checking import brief_reason, first_fault
from tfdp.data.sources.base import Source
from tfdp.data.sources.framing import REPAIR
from tfdp.errors import DataError

_READING = ("user-defined function passed to", "IteratorGetNext", "MultiDeviceIterator")
_RAISED_HERE = re.compile(r"tfdp\.errors\.DataError: (.*)")
"""An error of tfdp from Python code that tf.data runs."""


def explain(error: tf.errors.OpError, *sources: Source) -> DataError | None:
    """What went wrong while examples were read, or None where it was something else.

    Reads the sources from the start until it comes to the fault, which takes a while.

    Args:
      error: raised by TensorFlow.
      *sources: where to look.
    """
    text = str(error.message)
    own = _RAISED_HERE.search(text)
    if own is not None:
        return DataError(own[1])
    if isinstance(error, tf.errors.NotFoundError):
        return _gone(text, sources)
    if not isinstance(error, tf.errors.DataLossError | tf.errors.InvalidArgumentError):
        return None
    if not isinstance(error, tf.errors.DataLossError) and not any(m in text for m in _READING):
        return None
    for source in sources:
        try:
            fault = first_fault(source)
        except (tf.errors.OpError, OSError) as other:
            fault = brief_reason(str(other))
        except DataError as other:
            return other
        if fault is not None:
            return DataError(f"{fault}.", hint=REPAIR)
    return None


def _gone(text: str, sources: Iterable[Source]) -> DataError | None:
    for source in sources:
        for file in getattr(source, "files", ()):
            if file in text:
                return DataError(
                    f"{file}: the file is gone.",
                    hint="It was there at the start: leave the data alone while it is in use.",
                )
    return None


@contextmanager
def data_errors(*sources: Source) -> Iterator[None]:
    """Turns what tf.data raises inside the block into a `DataError` that names the place.

    Args:
      *sources: that are read in the block.

    Raises:
      DataError: an example cannot be read.
    """
    try:
        yield
    except tf.errors.OpError as error:
        raise explain(error, *sources) or DataError(brief_reason(str(error.message))) from error
