"""Processes that wait for their turns: what they say, and what is said when they fail."""

from __future__ import annotations

import os

import pytest

from tests.bench.stubs import stub
from tfdp.bench.peers import contestant
from tfdp.bench.peers.compare import Race, run_rounds
from tfdp.bench.peers.contestant import Contestant, slowest
from tfdp.bench.peers.contestants import check_peer_python
from tfdp.errors import StrategyError, WorkerError

pytestmark = pytest.mark.multi_process


def test_every_rank_takes_its_turn() -> None:
    with Contestant(stub("two", 2, seconds=0.5)) as group:
        group.wait_until_ready()
        assert group.turn(count=3) == [[0.5] * 3, [1.0] * 3]
        assert slowest(group.turn(count=2)) == [1.0, 1.0]
        processes = [process.pid for process in group._processes]
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_what_a_rank_raises_while_it_prepares_is_told() -> None:
    with (
        pytest.raises(WorkerError, match=r"failing: rank 0: ValueError: no such model\nTraceback"),
        Contestant(stub("failing", seconds=1, fails="prepare")) as group,
    ):
        group.wait_until_ready()


def test_a_rank_that_dies_is_told_with_its_last_words() -> None:
    with Contestant(stub("dying", 2, seconds=1, fails="turn")) as group:
        group.wait_until_ready()
        with pytest.raises(WorkerError, match=r"dying: .*\n(?s:.*)the stub's own words"):
            group.turn(count=1)


def test_a_turn_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contestant, "START_SECONDS", 0.0)
    with (
        pytest.raises(WorkerError, match="slow: the time is up"),
        Contestant(stub("slow", seconds=1)),
    ):
        pass


def test_rounds_reverse_their_order_and_ratios_are_of_pairs() -> None:
    race = Race("model", 64, {"a": [], "b": []}, [("a", "b")])
    said: list[str] = []
    with Contestant(stub("a", seconds=0.5)) as a, Contestant(stub("b", seconds=2.0)) as b:
        for each in (a, b):
            each.wait_until_ready()
        run_rounds([a, b], 3, race.seconds, said.append, what="steps", count=2)
    assert race.seconds == {"a": [0.5] * 3, "b": [2.0] * 3}
    assert race.ratio("a", "b").values == (4.0, 4.0, 4.0)
    assert race.speed("a").median == 128.0
    assert said[1:] == [
        "round 2 of 3: b 2000.0 ms, a 500.0 ms",
        "round 3 of 3: a 500.0 ms, b 2000.0 ms",
    ]


def test_a_python_without_torch_is_refused() -> None:
    with pytest.raises(StrategyError, match="--peer-python /nowhere/python does not run"):
        check_peer_python("/nowhere/python")
    with pytest.raises(StrategyError, match=r"has no PyTorch with Gloo"):
        check_peer_python("/bin/false")
