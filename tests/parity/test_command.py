"""``tfdp verify``: the table, and the exit code of a difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parity import user_models
from tfdp.config import load_config
from tfdp.errors import ParityError
from tfdp.parity.command import run

pytestmark = [pytest.mark.multi_process, pytest.mark.slow]

MODULE = user_models.__name__


def verify(model: str, folder: Path, repository: Path) -> int:
    config = folder / "config.yaml"
    config.write_text(
        "version: 1\n"
        f"module_directory: {repository}\n"
        f"data: {{function: '{MODULE}:arrays', global_batch: 6}}\n"
        f"model: {{function: '{MODULE}:{model}'}}\n",
        encoding="utf-8",
    )
    return run(load_config(config, []), (3,))


def test_a_model_that_is_equal(
    tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify("plain", tmp_path, repository) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "optimizer state │ equal" in text
    assert "2 epochs of 3 steps of 6 rows, the last of 1 row, float64" in text


def test_a_difference_is_an_error_after_the_table(
    tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ParityError, match="3 replicas did not train what one device trained"):
        verify("depends_on_the_replica", tmp_path, repository)
    assert "differs" in capsys.readouterr().out
