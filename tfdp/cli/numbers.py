"""Numbers on the command line: types for argparse, which say what is allowed."""

from __future__ import annotations

import argparse
import math

_MOST = 10_000


def count(text: str) -> int:
    """A number of processes, devices or files: 1 to 10000."""
    return whole_number(text, 1, _MOST)


def count_or_zero(text: str) -> int:
    """As `count`, or 0 for none."""
    return 0 if text == "0" else count(text)


def many(text: str) -> int:
    """A number of steps or rows: 1 to 10^9."""
    return whole_number(text, 1, 10**9)


def numbers(text: str) -> tuple[int, ...]:
    """Positive integers, as in "1,2,4".

    Raises:
      ArgumentTypeError: one is none.
    """
    parts = text.replace("_", "").split(",")
    if not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f'must be positive integers, as in 1,2,4, got "{text}"')
    return tuple(int(part) for part in parts)


def whole_number(text: str, least: int, most: int) -> int:
    """An integer in decimal digits.

    Raises:
      ArgumentTypeError: it is none, or out of range.
    """
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f'must be an integer from {least} to {most}, got "{text}"')
    return int(text)


def seconds(text: str) -> float:
    """A time of more than 0 seconds.

    Raises:
      ArgumentTypeError: it is no number, or not greater than 0.
    """
    number = _number(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f'must be a number greater than 0, got "{text}"')
    return number


def positive(text: str) -> float:
    """A number greater than 0.

    Raises:
      ArgumentTypeError: it is none.
    """
    return seconds(text)


def seconds_or_zero(text: str) -> float:
    """A time of 0 seconds or more.

    Raises:
      ArgumentTypeError: it is no number, or less than 0.
    """
    number = _number(text)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f'must be 0 or a greater number, got "{text}"')
    return number


def seconds_or_never(text: str) -> float | None:
    """As `seconds`; None for 0."""
    return None if text == "0" else seconds(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
