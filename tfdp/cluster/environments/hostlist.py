"""Slurm's compressed lists: of hosts, ``node[01-03,7],login``, and of counts, ``2(x3),1``."""

from __future__ import annotations

import re

from tfdp.errors import ClusterError

MAX_ITEMS = 100_000
"""Longer lists are taken for a mistake."""

_NUMBERS = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_COUNT = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?")


def expand_hosts(text: str, *, name: str) -> list[str]:
    """The hosts of a list, in its order: ``n[01-02]`` gives ``n01``, ``n02``.

    Several brackets in one name are combined, the last one counting fastest.

    Args:
      text: the list.
      name: where it comes from, for messages.

    Raises:
      ClusterError: it is malformed, empty, or too long.
    """
    hosts: list[str] = []
    for part in _split_outside_brackets(text, name):
        hosts += _expand(part, text, name)
        _check_length(len(hosts), text, name)
    if not hosts:
        raise _malformed(text, name)
    return hosts


def expand_counts(text: str, *, name: str) -> list[int]:
    """The numbers of a list: ``2(x3),1`` gives 2, 2, 2, 1.

    Raises:
      ClusterError: it is malformed or too long.
    """
    counts: list[int] = []
    for part in text.split(","):
        match = _COUNT.fullmatch(part.strip())
        if match is None:
            raise _malformed(text, name)
        times = int(match[2] or 1)
        _check_length(len(counts) + times, text, name)
        counts += [int(match[1])] * times
    return counts


def _split_outside_brackets(text: str, name: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for character in text.strip():
        depth += (character == "[") - (character == "]")
        if depth not in (0, 1):
            raise _malformed(text, name)
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    if depth:
        raise _malformed(text, name)
    return [*parts, current] if text.strip() else []


def _expand(part: str, text: str, name: str) -> list[str]:
    head, bracket, rest = part.partition("[")
    if not re.fullmatch(r"[\w.-]*", head, re.ASCII) or not part:
        raise _malformed(text, name)
    if not bracket:
        return [head]
    inside, _, tail = rest.partition("]")
    tails = _expand(tail, text, name) if tail else [""]
    numbers = [number for item in inside.split(",") for number in _range(item, text, name)]
    _check_length(len(numbers) * len(tails), text, name)
    return [f"{head}{number}{end}" for number in numbers for end in tails]


def _range(item: str, text: str, name: str) -> list[str]:
    """``08-11`` gives 08, 09, 10, 11: the width of the first number is kept."""
    match = _NUMBERS.fullmatch(item)
    if match is None:
        raise _malformed(text, name)
    first, last = match[1], match[2] or match[1]
    if int(last) < int(first):
        raise _malformed(text, name)
    _check_length(int(last) - int(first), text, name)
    return [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]


def _check_length(length: int, text: str, name: str) -> None:
    if length > MAX_ITEMS:
        raise ClusterError(f'{name} has more than {MAX_ITEMS} items: "{text[:80]}"')


def _malformed(text: str, name: str) -> ClusterError:
    return ClusterError(f'{name} is malformed, got "{text[:80]}"')
