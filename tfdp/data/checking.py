"""Which examples of a source cannot be read, and why."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from tfdp.data.sources.base import RowSource, Source, StreamSource
from tfdp.data.sources.framing import Segment, examine
from tfdp.errors import DataError

_log = logging.getLogger("tfdp.data")

_SHOWN = 5
_WRAPPING = re.compile(
    r"Error in user-defined function passed to \S+ transformation with iterator: \S+ "
)


class Bad(NamedTuple):
    """An example that cannot be read."""

    at: int
    reason: str


def bad_examples(source: Source) -> Iterator[Bad]:
    """Reads every example of a source once, and gives those that cannot be read.

    A record whose framing is damaged is no example yet: see `damages`.
    """
    if isinstance(source, RowSource):
        rows = tf.data.Dataset.range(source.rows)
        yield from _unreadable(source, rows.map(lambda at: {"at": at}))
    elif isinstance(source, StreamSource):
        for segment in range(source.segments):
            records = source.records(tf.constant(segment, tf.int64)).ignore_errors()
            tickets = records.map(lambda at, record: {"at": at, "record": record})
            yield from _unreadable(source, tickets)


def damages(source: Source) -> Iterator[str]:
    """What is wrong with the files themselves, file by file."""
    for file in source.files if isinstance(source, StreamSource) else ():
        for damage in examine(file)[1]:
            yield f"{file}: {damage.reason}"


def first_fault(source: Source) -> str | None:
    """The first thing that is wrong with a source: where and what, in words."""
    found = next(damages(source), None)
    if found is not None:
        return found
    bad = next(bad_examples(source), None)
    return None if bad is None else f"{source.where(bad.at)}: {bad.reason}"


def leave_out(source: Any) -> Any:
    """The source without what cannot be read; logs how much that is.

    Reads, parses and decodes everything once, so that the order and the number of examples are
    known, and the same in every epoch and on every worker.

    Raises:
      DataError: nothing is left.
    """
    if isinstance(source, RowSource):
        return _leave_out_rows(source)
    parts: list[Segment] = []
    faults: list[str] = []
    lost = 0
    for file in source.files:
        good, found = examine(file)
        for damage in found:
            faults.append(f"{file}: {damage.reason}")
            lost += damage.lost or 0
        parts += good
    if not parts:
        raise DataError(f"{source.place}: no record can be read: {faults[0]}.")
    sound = source.without(parts)
    bad: dict[int, str] = dict(bad_examples(sound))
    faults += [f"{source.where(at)}: {reason}" for at, reason in bad.items()]
    if faults:
        _say(source, lost + len(bad), faults)
    return sound.without(_around(sound, set(bad))) if bad else sound


def _leave_out_rows(source: Any) -> Any:
    bad = dict(bad_examples(source))
    if bad:
        _say(source, len(bad), [f"{source.where(at)}: {reason}" for at, reason in bad.items()])
    if len(bad) == source.rows:
        raise DataError(f"{source.place}: no example can be read.")
    return source.without(sorted(bad)) if bad else source


def _say(source: Source, lost: int, faults: list[str]) -> None:
    more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    _log.warning(
        "%s: left out %d examples that cannot be read (data.on_error: skip): %s%s",
        source.place,
        lost,
        "; ".join(faults[:_SHOWN]),
        more,
    )


def _around(source: Any, bad: set[int]) -> list[Segment]:
    """The segments of a source, cut at the bad examples."""
    parts: list[Segment] = []
    for part in source.parts:
        start = 0
        for number in range(part.records + 1):
            at = source._at(part, number)
            if number == part.records or at in bad:
                if number > start:
                    parts.append(
                        Segment(
                            part.file,
                            part.compression,
                            part.skip if part.offsets else part.skip + start,
                            part.first + start,
                            number - start,
                            part.offsets[start:number],
                        )
                    )
                start = number + 1
    return parts


def _unreadable(source: Source, tickets: tf.data.Dataset) -> Iterator[Bad]:
    """Those of single tickets that `source.read` refuses."""

    def read(ticket: Any) -> tuple[tf.Tensor, Any]:
        at = ticket["at"]
        zero = tf.zeros([], tf.int64)
        one = {name: value[tf.newaxis] for name, value in ticket.items()}
        columns = source.read({**one, "number": at[tf.newaxis], "epoch": zero})
        return at, columns  # what nobody takes, TensorFlow does not compute

    def whole(ticket: Any) -> tuple[tf.Tensor, tf.Tensor]:
        return ticket["at"], tf.constant(True)

    readable = tickets.map(read, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    good = (int(at) for at, _ in readable.ignore_errors().as_numpy_iterator())
    expected = next(good, None)
    for at, _ in tickets.map(whole).as_numpy_iterator():
        if expected is not None and at == expected:
            expected = next(good, None)
            continue
        yield Bad(int(at), _reason(tickets, int(at), read))


def _reason(tickets: tf.data.Dataset, at: int, read: Any) -> str:
    one = tickets.filter(lambda ticket: ticket["at"] == at).take(1)
    try:
        list(one.map(read))
    except tf.errors.OpError as error:
        return brief_reason(str(error.message))
    return "cannot be read now and then"


def brief_reason(text: str) -> str:
    """The kernel of TensorFlow's message, in one line."""
    text = _WRAPPING.sub("", text).split(" [Condition ")[0]
    lines = [line.strip() for line in text.split("[Op:")[0].splitlines()]
    kept = [line.split("}} ")[-1] for line in lines if line and not line.startswith("[[")]
    short = " ".join(kept).strip().rstrip(".")
    return short if len(short) <= 300 else f"{short[:300]}..."
