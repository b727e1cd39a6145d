"""Who may write to a run directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.training.configs import make_config
from tfdp.errors import RunError
from tfdp.training.run_directory import RunDirectory


def test_a_new_or_empty_directory_is_fine_and_left_alone(tmp_path: Path) -> None:
    config = make_config(tmp_path)
    for root in (tmp_path / "a" / "b", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        RunDirectory(root).check(config, resume=False)
    assert not (tmp_path / "a").exists()


def test_a_directory_with_content_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").write_text("x")
    with pytest.raises(RunError, match="exists already") as caught:
        RunDirectory(tmp_path / "run").check(make_config(tmp_path), resume=False)
    assert "--resume" in str(caught.value)
    assert "output.directory" in str(caught.value)


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for root in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(RunError, match="file is a file, not a directory"):
            RunDirectory(root).check(make_config(tmp_path), resume=False)


def test_a_read_only_parent_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    if os.access(locked, os.W_OK):  # root may write everywhere
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != locked)
    with pytest.raises(RunError, match=f"{locked} is read-only"):
        RunDirectory(locked / "deep" / "run").check(make_config(tmp_path), resume=False)


def test_the_config_is_written_with_its_defaults(tmp_path: Path) -> None:
    config = make_config(tmp_path)
    directory = RunDirectory(tmp_path / "run")
    directory.create(config)
    assert yaml.safe_load(directory.config.read_text()) == yaml.safe_load(config.to_yaml())


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="there is no run to resume"):
        RunDirectory(tmp_path / "run").check(make_config(tmp_path), resume=True)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"training__epochs": 9},
        {"strategy__kind": "mirrored", "strategy__devices": 4},
        {"output__checkpoints": {"keep": 7}},
    ],
)
def test_a_resumed_run_may_last_longer_elsewhere(tmp_path: Path, change: dict[str, Any]) -> None:
    directory = RunDirectory(tmp_path / "run")
    directory.create(make_config(tmp_path))
    directory.check(make_config(tmp_path, **change), resume=True)


def test_a_resumed_run_trains_the_same(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "run")
    directory.create(make_config(tmp_path))
    changed = make_config(
        tmp_path, data__seed=4, optimizer__arguments={"clipnorm": 1.0}, training__epochs=5
    )
    with pytest.raises(RunError) as caught:
        directory.check(changed, resume=True)
    text = str(caught.value)
    assert "data.seed was 3 and is now 4" in text
    assert "optimizer.arguments.clipnorm was None and is now 1.0" in text
    assert "training.epochs was" not in text


@pytest.mark.parametrize("content", [b"a: [", b"just text", b"\xff\xfe"])
def test_a_damaged_config_is_named(tmp_path: Path, content: bytes) -> None:
    directory = RunDirectory(tmp_path / "run")
    directory.create(make_config(tmp_path))
    directory.config.write_bytes(content)
    with pytest.raises(RunError, match=r"run/config\.yaml: "):
        directory.check(make_config(tmp_path), resume=True)
