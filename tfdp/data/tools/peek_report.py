"""What was seen of a source, on the terminal and in a picture file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.segment import Segments
from rich.table import Table

from tfdp.data.tools.drawing import as_characters, as_half_blocks, grid, is_picture, png
from tfdp.data.tools.peek import Peek
from tfdp.data.tools.statistics import Column
from tfdp.errors import DataError, RunError

_SHOWN_VALUES = 8
_SHOWN_CLASSES = 20


def show(found: Peek, console: Console) -> None:
    """Prints examples and statistics."""
    for number, example in enumerate(found.examples):
        console.print(f"example {number}", highlight=False)
        for name, value in example.items():
            _say(console, f"  {name}: {describe(value)}")
            if is_picture(value):
                _draw(value, console)
    console.print(_table(found))
    for column in found.columns:
        if column.classes:
            _say(console, f"values of {column.name}: {classes(column)}")


def save(found: Peek, path: Path) -> int:
    """Writes the pictures of the examples to one PNG file; returns how many they are.

    Raises:
      DataError: no column holds pictures.
      RunError: the file cannot be written.
    """
    pictures = [value for each in found.examples for value in each.values() if is_picture(value)]
    if not pictures:
        raise DataError(f"{found.place}: no column holds pictures, so there are none to save.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        temporary.write_bytes(png(grid(pictures)))
        os.replace(temporary, path)
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}.") from error
    finally:
        temporary.unlink(missing_ok=True)
    return len(pictures)


def describe(value: np.ndarray) -> str:
    """Type, shape and, of few values, the values of one example."""
    array = np.asarray(value)
    values = [_shown(each) for each in array.ravel()[:_SHOWN_VALUES].tolist()]
    more = f", ... {array.size - _SHOWN_VALUES} more" if array.size > _SHOWN_VALUES else ""
    kind = "text" if array.dtype.kind in "OSU" else str(array.dtype)
    if array.ndim == 0:
        return f"{kind} {values[0]}"
    return f"{kind} {array.shape}" + ("" if is_picture(array) else f" [{', '.join(values)}{more}]")


def classes(column: Column) -> str:
    """How often each value came, in the order of the values."""
    assert column.classes is not None
    common = sorted(column.classes.items(), key=lambda item: (str(type(item[0])), item[0]))
    shown = ", ".join(f"{value}: {count:,}" for value, count in common[:_SHOWN_CLASSES])
    more = len(common) - _SHOWN_CLASSES
    return f"{shown}, and {more} more" if more > 0 else shown


def _table(found: Peek) -> Table:
    total = "" if found.rows is None else f" of {found.rows:,}"
    table = Table(title=f"{found.place}: {found.looked_at:,}{total} examples looked at")
    headings = ("column", "type", "shape", "least", "most", "mean", "missing", "distinct")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number > 2 else "left", no_wrap=True)
    for each in found.columns:
        table.add_row(
            each.name,
            each.dtype,
            str(each.shape).replace("None", "?"),
            _number(each.least),
            _number(each.most),
            _number(each.mean),
            f"{each.missing or ''}",
            f"{len(each.classes)}" if each.classes else "",
        )
    return table


def _draw(value: np.ndarray, console: Console) -> None:
    if console.is_terminal and console.color_system not in (None, "standard"):
        console.print(Segments(as_half_blocks(value)), end="")
        return
    for line in as_characters(value):
        _say(console, f"  {line}".rstrip())


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _shown(value: Any) -> str:
    if isinstance(value, (bytes, str)):
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        return repr(text if len(text) <= 60 else f"{text[:60]}...")
    return f"{value:.6g}" if isinstance(value, float) else str(value)
