"""What workers say to each other: one JSON object a line, of bounded size, checked when read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from tfdp.cluster.absence import Absence

PROTOCOL: Final = "tfdp-rendezvous-1"

MAX_BYTES: Final = 1 << 18
"""The longest line that is read; the addresses of 4,000 workers fit."""

_MAX_TEXT = 500
_MAX_ITEMS = 64


class MessageError(ValueError):
    """What came over the wire is no message of this protocol."""


@dataclass(frozen=True)
class Hello:
    """How a worker introduces itself.

    Attributes:
      index: its position in `workers`.
      nonce: differs between any two processes, those with the same index included.
      workers: ``host:port`` of every worker, as it was told.
      facts: what it must have in common with the others, by name.
    """

    index: int
    nonce: str
    workers: tuple[str, ...]
    facts: Mapping[str, str]


def encode_hello(hello: Hello) -> bytes:
    """The line to send."""
    return _line(
        {
            "protocol": PROTOCOL,
            "index": hello.index,
            "nonce": hello.nonce,
            "workers": list(hello.workers),
            "facts": dict(hello.facts),
        }
    )


@dataclass(frozen=True)
class Verdict:
    """What a worker has come to.

    Attributes:
      problems: what is wrong with the group; nothing means: start.
      absence: addresses that the group could go on without.
    """

    problems: tuple[str, ...] = ()
    absence: Absence = field(default_factory=Absence)


def encode_verdict(verdict: Verdict) -> bytes:
    """The line to send."""
    return _line(
        {
            "protocol": PROTOCOL,
            "problems": list(verdict.problems)[:_MAX_ITEMS],
            "absent": sorted(verdict.absence.absent),
            "excluded": sorted(verdict.absence.excluded),
        }
    )


def decode_hello(line: bytes) -> Hello:
    """Reads a line of `encode_hello`.

    Raises:
      MessageError: it is anything else.
    """
    message = _parse(line)
    index, workers, facts = message.get("index"), message.get("workers"), message.get("facts")
    if type(index) is not int or not isinstance(message.get("nonce"), str):
        raise MessageError("no index or nonce")
    if not _are_texts(workers) or not 0 <= index < len(workers):
        raise MessageError("no list of workers that the index fits")
    if not isinstance(facts, dict) or len(facts) > _MAX_ITEMS or not _are_texts([*facts.values()]):
        raise MessageError("no facts")
    return Hello(
        index,
        printable(message["nonce"]),
        tuple(printable(worker) for worker in workers),
        {printable(name): printable(value) for name, value in facts.items()},
    )


def decode_verdict(line: bytes) -> Verdict:
    """Reads a line of `encode_verdict`.

    Raises:
      MessageError: it is anything else.
    """
    message = _parse(line)
    problems = message.get("problems")
    if not _are_texts(problems) or len(problems) > _MAX_ITEMS:
        raise MessageError("no list of problems")
    absent, excluded = message.get("absent", []), message.get("excluded", [])
    if not _are_texts(absent) or not _are_texts(excluded):
        raise MessageError("no lists of addresses")
    return Verdict(
        tuple(printable(problem) for problem in problems),
        Absence(frozenset(map(printable, absent)), frozenset(map(printable, excluded))),
    )


def printable(text: str) -> str:
    """`text` from a stranger, shortened and without what could steer a terminal."""
    clean = "".join(character if character.isprintable() else "?" for character in text)
    return clean if len(clean) <= _MAX_TEXT else f"{clean[: _MAX_TEXT - 3]}..."


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _parse(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise MessageError("no JSON") from None
    if not isinstance(message, dict) or message.get("protocol") != PROTOCOL:
        raise MessageError("another protocol")
    return message


def _are_texts(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
