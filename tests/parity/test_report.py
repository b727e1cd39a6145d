"""Reports: what passes, what is named first, how it reads."""

from __future__ import annotations

import json

import pytest

from tfdp.errors import ParityError
from tfdp.parity.report import Report, Verdict


def differs(feature: str, step: int | None, replicas: int = 2) -> Verdict:
    return Verdict(replicas, feature, "differs", "", step, "kernel", 0.25, 1e-12)


EQUAL = Verdict(2, "weights", "equal", difference=3e-16, tolerance=1e-12)
BY_DEFINITION = Verdict(2, "losses", "differs by definition", "Dropout", 1, "loss", 0.5, 1e-12)
UNUSED = Verdict(2, "statistics", "not used")


def test_only_what_differs_fails() -> None:
    found = Report((EQUAL, BY_DEFINITION, UNUSED), "")
    assert found.passed
    assert found.first_difference is None
    found.raise_if_different()


@pytest.mark.parametrize(
    ("verdicts", "first"),
    [
        ([differs("weights", 5), differs("metrics", 2)], 1),
        ([differs("weights", 2), differs("losses", 2)], 1),  # a cause before its effect
        ([differs("predictions", None), differs("metrics", 9)], 1),  # a known step first
        ([differs("weights", 2, 4), differs("weights", 2, 2)], 1),
        ([EQUAL, BY_DEFINITION, differs("optimizer state", 7)], 2),
    ],
)
def test_the_first_difference(verdicts: list[Verdict], first: int) -> None:
    found = Report(tuple(verdicts), "")
    assert not found.passed
    assert found.first_difference is verdicts[first]


def test_the_error_names_the_step_and_the_variable() -> None:
    with pytest.raises(ParityError) as caught:
        Report((differs("weights", 3, 4),), "").raise_if_different()
    assert str(caught.value) == (
        "4 replicas did not train what one device trained: weights: kernel by 2.5e-01; "
        "first at step 3"
    )
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (EQUAL, "at most 3e-16"),
        (BY_DEFINITION, "loss by 5.0e-01; first at step 1; Dropout"),
        (UNUSED, ""),
        (differs("predictions", None), "kernel by 2.5e-01"),
    ],
)
def test_details(verdict: Verdict, text: str) -> None:
    assert verdict.detail() == text


def test_the_text_has_a_row_for_each_verdict_and_says_what_ran() -> None:
    text = str(Report((EQUAL, BY_DEFINITION, UNUSED), "2 epochs of 3 steps"))
    for piece in ("weights", "differs by definition", "not used", "2 epochs of 3 steps"):
        assert piece in text


def test_json_holds_everything() -> None:
    read = json.loads(Report((EQUAL,), "what").to_json())
    assert read["passed"] is True
    assert read["verdicts"][0]["feature"] == "weights"
    assert read["what_ran"] == "what"


def test_a_verdict_by_feature_and_replicas() -> None:
    found = Report((EQUAL, UNUSED), "")
    assert found.verdict("statistics", 2) is UNUSED
    with pytest.raises(KeyError, match="no verdict on 'weights' with 3 replicas"):
        found.verdict("weights", 3)
