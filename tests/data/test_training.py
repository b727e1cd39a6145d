"""`tfdp train` on files: what replicas train, what is logged, and what a bad file leads to."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.sources.written import NUMBERS, example, write_records
from tests.training.configs import functions_forgotten, make_config
from tfdp.errors import DataError
from tfdp.training.run import train

ROWS = 23


@pytest.fixture(autouse=True)
def _forget_functions() -> Iterator[None]:
    with functions_forgotten():
        yield


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    """Settings of a run on three files of records."""
    rng = np.random.default_rng(0)
    for name, rows in (("a", 12), ("b", 0), ("c", ROWS - 12)):
        records = [example(x=rng.normal(size=3), y=int(i % 3)) for i in range(rows)]
        write_records(tmp_path / f"{name}.tfrecord", records)
    arguments = {"files": "*.tfrecord", "validation": "a.*", "features": NUMBERS, "target": "y"}
    return {
        "data__function": None,
        "data__name": "tfrecord",
        "data__arguments": {**arguments, "classes": 3},
        "data__shuffle_buffer": 10,
        "model__arguments": {"width": 3},
        "strategy__kind": "mirrored",
    }


def run(folder: Path, name: str, settings: dict[str, Any], **changes: Any) -> dict[str, float]:
    config = make_config(folder, **{**settings, **changes, "output__directory": str(folder / name)})
    return train(config).metrics


def test_two_replicas_train_what_one_device_trains(
    tmp_path: Path, files: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tfdp")
    settings = {**files, "strategy__sync_batch_norm": True}
    two = run(tmp_path, "two", {**settings, "strategy__cpu_devices": 2})
    assert "each worker reads the bytes of all 2 files" in caplog.text
    assert "a step has 8 examples, 4 for each of 2 replicas" in caplog.text
    one = run(tmp_path, "one", settings, strategy__kind="single")
    for name, value in one.items():
        assert two[name] == pytest.approx(value, rel=1e-4), name


def test_a_cache_is_in_the_run_directory(tmp_path: Path, files: dict[str, Any]) -> None:
    run(tmp_path, "run", files, data__cache="cache", training__epochs=1)
    assert len(list((tmp_path / "run" / "cache").glob("*/contents.json"))) == 2


def test_damaged_files_are_named_at_the_start_or_when_it_is_met(
    tmp_path: Path, files: dict[str, Any]
) -> None:
    path = tmp_path / "c.tfrecord"
    content = bytearray(path.read_bytes())
    path.write_bytes(content[:-5])
    with pytest.raises(DataError, match=r"^[^ ]*c.tfrecord: the file ends at byte"):
        run(tmp_path, "cut", files)
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"training stopped after .*c.tfrecord: .*checksum differs"):
        run(tmp_path, "changed", files)
