"""The digest by which workers notice that their configs differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfdp.config import load_config
from tfdp.training.run import _digest

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "quickstart.yaml"


def digest(*overrides: str) -> str:
    return _digest(load_config(CONFIG, overrides))


def test_where_files_go_may_differ() -> None:
    assert digest("output.directory=elsewhere") == digest()


@pytest.mark.parametrize(
    "override",
    ["training.seed=99", "data.global_batch=64", "output.checkpoints.every_epochs=0"],
)
def test_what_is_trained_and_when_all_meet_may_not(override: str) -> None:
    assert digest(override) != digest()
