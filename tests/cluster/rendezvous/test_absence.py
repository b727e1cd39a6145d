"""What the workers of a group conclude about those that are missing: all the same."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from tests.cluster.rendezvous.test_meet import addresses
from tfdp.cluster import ClusterInfo
from tfdp.cluster.absence import Absence
from tfdp.cluster.rendezvous.meeting import Meeting
from tfdp.cluster.rendezvous.messages import PROTOCOL, MessageError, Verdict, decode_verdict

SHORT = 1.5


def absences(*workers: tuple[tuple[str, ...], int, float], last_after: float = 0) -> list[Absence]:
    """What each worker concludes, given its list, index and time-out; the last comes later."""

    async def all_of() -> list[Verdict]:
        meetings = [
            Meeting(ClusterInfo(listed, index, "worker"), {}, timeout)
            for listed, index, timeout in workers
        ]

        async def late() -> Verdict:
            await asyncio.sleep(last_after)
            return await meetings[-1].run()

        return await asyncio.gather(*(meeting.run() for meeting in meetings[:-1]), late())

    return [verdict.absence for verdict in asyncio.run(all_of())]


def absent(*workers: str) -> Absence:
    return Absence(absent=frozenset(workers))


def excluded(*workers: str) -> Absence:
    return Absence(excluded=frozenset(workers))


def test_nobody_is_missing() -> None:
    listed = addresses(2)
    assert absences((listed, 0, 10), (listed, 1, 10)) == [Absence()] * 2


def test_one_that_does_not_come() -> None:
    listed = addresses(3)
    assert absences((listed, 0, SHORT), (listed, 2, SHORT)) == [absent(listed[1])] * 2


def test_those_that_would_wait_longer_are_told() -> None:
    listed = addresses(4)
    start = time.monotonic()
    found = absences((listed, 0, SHORT), (listed, 1, 20), (listed, 3, 20))
    assert found == [absent(listed[2])] * 3
    assert time.monotonic() - start < 5


def test_one_that_another_list_lacks() -> None:
    listed = addresses(3)
    start = time.monotonic()
    assert absences((listed, 0, 20), (listed[:2], 1, 20)) == [excluded(listed[2])] * 2
    assert time.monotonic() - start < 5


def test_one_that_came_and_that_another_list_lacks() -> None:
    listed = addresses(3)
    found = absences((listed, 0, SHORT), (listed[:2], 1, SHORT), (listed, 2, SHORT))
    assert [each.excluded for each in found] == [frozenset({listed[2]})] * 3


def test_one_that_another_list_lacks_is_told_though_it_comes_last() -> None:
    listed = addresses(3)
    found = absences((listed, 0, 20), (listed[:2], 1, 20), (listed, 2, 20), last_after=0.7)
    assert [each.excluded for each in found] == [frozenset({listed[2]})] * 3


def line(**changes: object) -> bytes:
    return json.dumps({"protocol": PROTOCOL, "problems": [], **changes}).encode()


@pytest.mark.parametrize("value", ["a:1", [1], {"a": 1}, None])
@pytest.mark.parametrize("name", ["absent", "excluded"])
def test_lists_that_are_none(name: str, value: object) -> None:
    with pytest.raises(MessageError, match="no lists of addresses"):
        decode_verdict(line(**{name: value}))


def test_a_verdict_without_lists() -> None:
    assert decode_verdict(line()) == Verdict()
