"""The table of features: how it is made, and that a few rows of it are as they should be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tfdp.errors import RunError
from tfdp.parity import features
from tfdp.parity.feature_programs import FEATURES, Feature
from tfdp.parity.features import Ended, cell, markdown, run, run_features

A = {"weight": np.array([2.0])}
B = {"weight": np.array([3.0])}
NAN = {"weight": np.array([np.nan])}


def feature(**more: object) -> Feature:
    return Feature("Group", "name", lambda scope: {}, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "outcome", "text"),
    [
        (feature(), A, "equal"),
        (feature(), B, "**wrong**: weight differs by 5.0e-01 of its size"),
        (feature(), NAN, "**NaN** in weight"),
        (feature(tolerance=0.6), B, "equal"),
        (feature(by_definition="of its own"), B, "differs by definition: of its own"),
        (feature(by_definition="of its own"), NAN, "**NaN** in weight"),
        (feature(), Ended("A: b | c"), "**fails**: A: b / c"),
        (feature(), Ended("cannot", refused=True), "refused: cannot"),
    ],
)
def test_a_cell(row: Feature, outcome: features.Outcome, text: str) -> None:
    assert cell(row, A, outcome) == text


def test_a_long_message_is_cut() -> None:
    text = cell(feature(), A, Ended("x" * 500))
    assert text.endswith("…")
    assert len(text) < 80


def test_the_table_has_a_heading_for_each_group() -> None:
    rows = [feature(), Feature("Other", "second", lambda scope: {})]
    assert markdown(rows, [A, A], [B, A], [A, A]).splitlines()[2:] == [
        "| **Group** | | |",
        "| name | **wrong**: weight differs by 5.0e-01 of its size | equal |",
        "| **Other** | | |",
        "| second | equal | equal |",
    ]


def test_a_feature_that_does_not_run_on_one_device_is_no_comparison() -> None:
    with pytest.raises(RunError, match="does not run on one device: boom"):
        markdown([feature()], [Ended("boom")], [A], [A])


def test_names_are_different() -> None:
    assert len({row.name for row in FEATURES}) == len(FEATURES)


def test_a_path_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be written"):
        run(tmp_path / "missing" / "table.md")


@pytest.mark.multi_process
@pytest.mark.slow
def test_some_rows(tmp_path: Path) -> None:
    wanted = ["last batch of 1", "`clipnorm`", "`jit_compile=True`", "`Dropout`"]
    numbers = [i for i, row in enumerate(FEATURES) if row.name in wanted]
    output = tmp_path / "table.md"
    assert run(output, numbers) == 0
    cells = {
        line.split(" | ")[0].strip("| "): [part.strip(" |") for part in line.split(" | ")[1:]]
        for line in output.read_text(encoding="utf-8").splitlines()
    }
    for name in wanted[:2]:
        stock, tfdp = cells[name]
        assert stock.startswith("**wrong**")
        assert tfdp == "equal"
    stock, tfdp = cells["`jit_compile=True`"]
    assert stock.startswith("**fails**")
    assert tfdp.startswith("refused: jit_compile=True")
    assert cells["`Dropout`"][1].startswith("differs by definition")


@pytest.mark.multi_process
@pytest.mark.slow
def test_a_feature_that_ends_its_process_does_not_end_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(features, "CHILD_MODULE", "tests.parity.feature_child_that_dies")
    first, second = run_features("one_device", [0, 1]).values()
    assert isinstance(first, Ended)
    assert "ended with exit code 3" in first.message
    assert not isinstance(second, Ended)
