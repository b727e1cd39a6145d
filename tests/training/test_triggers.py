"""When a checkpoint is due."""

from __future__ import annotations

import pytest

from tfdp.training.triggers import SaveTriggers


@pytest.mark.parametrize(
    ("per_call", "due"), [(1, [4, 8, 12]), (3, [6, 9, 12]), (5, [5, 10, 15])], ids=str
)
def test_by_steps_also_where_several_come_in_a_call(per_call: int, due: list[int]) -> None:
    triggers = SaveTriggers(0, 4, 0)
    triggers.begin(0, 0.0)
    found = []
    for step in range(per_call, 16, per_call):
        if triggers.after_steps(step):
            found.append(step)
            triggers.saved(step, 0.0)
    assert found == due


def test_a_resumed_run_keeps_the_multiples() -> None:
    triggers = SaveTriggers(0, 10, 0)
    triggers.begin(27, 0.0)
    assert [step for step in range(28, 32) if triggers.after_steps(step)] == [30, 31]


def test_by_minutes_from_the_last_one_on() -> None:
    triggers = SaveTriggers(0, 0, 0.5)
    triggers.begin(0, 100.0)
    assert not triggers.after_minutes(129.9)
    assert triggers.after_minutes(130.0)
    triggers.saved(7, 131.0)
    assert not triggers.after_minutes(160.9)


@pytest.mark.parametrize(
    ("settings", "due"),
    [((2, 0, 0), [2, 4, 5]), ((0, 3, 0), [5]), ((0, 0, 0), []), ((1, 0, 0), [1, 2, 3, 4, 5])],
    ids=str,
)
def test_by_epochs_and_always_after_the_last(
    settings: tuple[int, int, float], due: list[int]
) -> None:
    triggers = SaveTriggers(*settings)
    assert [n for n in range(1, 6) if triggers.at_epoch_end(n, last=n == 5)] == due
