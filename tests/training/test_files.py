"""Files that are there completely or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tfdp.errors import RunError
from tfdp.training.files import disk_errors, replacing, replacing_file, write_text


def entries(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_replaces_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a longer text than the new one")
    write_text(path, "é\n")
    assert path.read_bytes() == b"\xc3\xa9\n"
    assert entries(tmp_path) == {"a.txt"}


def test_the_old_file_is_there_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with replacing_file(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_the_temporary_name_keeps_the_suffix(tmp_path: Path) -> None:
    with replacing(tmp_path / "model.keras") as temporary:
        assert temporary.suffix == ".keras"
        temporary.write_bytes(b"x")


@pytest.mark.parametrize("error", [ValueError("fault"), OSError(errno.ENOSPC, "No space left")])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: Exception) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises((ValueError, RunError)):
        _write_half(path, error)
    assert path.read_text() == "old"
    assert entries(tmp_path) == {"a.txt"}


def _write_half(path: Path, error: Exception) -> None:
    with replacing_file(path) as file:
        file.write(b"half of the")
        raise error


def test_a_directory_that_has_become_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(RunError, match=r"a\.txt: cannot be written: No such file or directory"):
        _write_where_a_file_was_put(tmp_path / "folder")


def _write_where_a_file_was_put(folder: Path) -> None:
    with replacing(folder / "a.txt") as temporary:
        folder.rmdir()
        folder.write_text("a file")
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(temporary))


def test_a_full_disk_is_named() -> None:
    with pytest.raises(RunError, match="/dev/full: cannot be written: No space left on device"):
        _write_to_a_full_device()


def _write_to_a_full_device() -> None:
    path = Path("/dev/full")
    with disk_errors(path), path.open("wb", buffering=0) as file:
        file.write(b"x")


def test_the_content_is_on_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, _recorded(done, name, getattr(os, name)))
    write_text(tmp_path / "a.txt", "x")
    assert done == ["fsync", "replace", "fsync"]


def _recorded(done: list[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        done.append(name)
        return function(*arguments)

    return call
