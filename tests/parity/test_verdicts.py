"""From numbers to verdicts, without TensorFlow."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tfdp.parity.report import Verdict
from tfdp.parity.verdicts import Facts, Runs, verdicts

NAMES = {
    "weights": ["kernel", "bias"],
    "statistics": [],
    "optimizer state": ["iteration", "learning_rate"],
    "random streams": [],
}
FACTS = Facts((), (), "float64", NAMES)


def recorded(kernel: list[float], bias: float = 1.0, loss: list[float] | None = None) -> dict:
    """A run in which the kernel has these values after the steps."""
    trace = np.array(kernel)
    return {
        "steps": np.arange(1, len(kernel) + 1),
        "log/loss": np.array(loss or [3.0, 2.0, 1.0]),
        "history/loss": np.array([2.0]),
        "final/weights/0": np.array([kernel[-1]]),
        "trace/weights/0": np.stack([trace, np.abs(trace)], axis=1),
        "final/weights/1": np.array([bias]),
        "trace/weights/1": np.full((len(kernel), 2), bias),
        "predict/0": np.array([1.0]),
    }


ONE = Runs(recorded([2.0, 2.0, 2.0]))


def judge(many: Runs, feature: str, *, one: Runs = ONE, facts: Facts = FACTS) -> Verdict:
    (found,) = (v for v in verdicts(one, many, 2, facts, None) if v.feature == feature)
    return found


def test_equal() -> None:
    for verdict in verdicts(ONE, ONE, 2, FACTS, None):
        used = verdict.feature in ("losses", "predictions", "weights")
        assert verdict.status == ("equal" if used else "not used")


def test_the_first_step_and_the_variable() -> None:
    found = judge(Runs(recorded([2.0, 2.5, 3.0])), "weights")
    assert (found.status, found.step, found.variable) == ("differs", 2, "kernel")
    assert found.difference == pytest.approx(0.5)


def test_of_two_variables_at_one_step_the_one_that_differs_more() -> None:
    found = judge(Runs(recorded([2.1, 2.1, 2.1], bias=3.0)), "weights")
    assert (found.step, found.variable) == (1, "bias")


def test_what_differs_only_in_the_end_has_no_step() -> None:
    arrays = {**ONE.as_is, "final/weights/0": np.array([2.1])}
    found = judge(Runs(arrays), "weights")
    assert (found.status, found.step, found.variable) == ("differs", None, "kernel")


@pytest.mark.parametrize("change", [np.nan, np.inf])
def test_a_loss_that_is_not_finite_differs(change: float) -> None:
    found = judge(Runs(recorded([2.0, 2.0, 2.0], loss=[3.0, change, 1.0])), "losses")
    assert (found.status, found.step, found.variable) == ("differs", 2, "loss")


def test_a_run_with_fewer_steps_differs_where_it_ended() -> None:
    many = recorded([2.0, 2.0], loss=[3.0, 2.0])
    assert judge(Runs(many), "weights").step == 3


def test_a_missing_value_differs() -> None:
    arrays = {k: v for k, v in ONE.as_is.items() if k != "predict/0"}
    assert judge(Runs(arrays), "predictions").status == "differs"


def test_rounding_that_grows_is_allowed_from_the_step_where_it_has_grown() -> None:
    facts = dataclasses.replace(FACTS, precision="float32")
    one = dataclasses.replace(ONE, rounding=recorded([2.0, 2.002, 2.002]))  # 1e-3 of its size
    grown = Runs(recorded([2.0, 2.01, 2.01]))  # 5e-3: less than eight times that
    assert judge(grown, "weights", one=one, facts=facts).status == "equal"
    early = Runs(recorded([2.01, 2.01, 2.01]))  # before anything can have grown
    assert judge(early, "weights", one=one, facts=facts).step == 1
    much = Runs(recorded([2.0, 2.1, 2.1]))
    assert judge(much, "weights", one=one, facts=facts).step == 2


DROPOUT = dataclasses.replace(FACTS, reasons=("dropout draws",))
OTHER = recorded([2.0, 2.5, 3.0])


def test_what_differs_by_definition_is_equal_without_the_cause() -> None:
    one = dataclasses.replace(ONE, comparable=ONE.as_is)
    found = judge(Runs(OTHER, comparable=ONE.as_is), "weights", one=one, facts=DROPOUT)
    assert found.status == "differs by definition"
    assert found.reason == "dropout draws. Equal without that"


def test_a_fault_beside_a_definition_is_a_fault() -> None:
    one = dataclasses.replace(ONE, comparable=ONE.as_is)
    found = judge(Runs(OTHER, comparable=OTHER), "weights", one=one, facts=DROPOUT)
    assert (found.status, found.step) == ("differs", 2)


def test_one_replica_has_no_excuse() -> None:
    found = verdicts(ONE, Runs(OTHER), 1, DROPOUT, None)
    assert [v.status for v in found if v.feature == "weights"] == ["differs"]


STREAMS = dataclasses.replace(FACTS, names={**NAMES, "random streams": ["seed_generator_state"]})


def streams(
    state: int = 4, draws: list[list[float]] | None = None, repeat: float | None = None
) -> Runs:
    arrays = {
        **ONE.as_is,
        "final/random streams/0": np.array([1, state], np.uint32),
        "trace/random streams/0": np.array([[0.0, 1.0]] * 3),
    }
    again = None if repeat is None else {**arrays, "history/loss": np.array([repeat])}
    return Runs(arrays, repeat=again, draws=np.array(draws or [[0.1, 0.2]]))


@pytest.mark.parametrize(
    ("many", "problem"),
    [
        (streams(4, [[0.1, 0.2], [0.7, 0.8]], 2.0), None),
        (streams(5, [[0.1, 0.2], [0.7, 0.8]], 2.0), "state of the stream"),
        (streams(4, [[0.1, 0.2], [0.1, 0.2]], 2.0), "draw the same numbers"),
        (streams(4, [[0.3, 0.2], [0.7, 0.8]], 2.0), "replica 0 does not draw"),
        (streams(4, [[0.1, 0.2], [0.7, 0.8]], 2.5), "another history/loss"),
    ],
)
def test_streams(many: Runs, problem: str | None) -> None:
    found = judge(many, "random streams", one=streams(), facts=STREAMS)
    assert found.status == ("equal" if problem is None else "differs")
    assert (problem or "each replica draws its own") in found.reason
