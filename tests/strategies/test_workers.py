"""Two workers with two devices each, as real processes on loopback."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.workers import run_workers

pytestmark = pytest.mark.multi_process
DEADLINE_SECONDS = 120


def workers(task: str, folder: Path, count: int = 2) -> list[dict[str, Any]]:
    """What each worker printed last."""
    return run_workers(
        "tests.strategies.worker_program",
        task,
        str(folder),
        count=count,
        deadline_seconds=DEADLINE_SECONDS,
    )


def test_files_are_written_once_and_a_backup_is_restored_by_all(tmp_path: Path) -> None:
    first, second = workers("files", tmp_path)
    assert first["weights"] == second["weights"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "backup",
        "best.keras",
        "events",
        "log.csv",
    ]
    assert len(list((tmp_path / "events").rglob("events.out.*"))) == 1
    with (tmp_path / "log.csv").open(encoding="utf-8") as log:
        assert [row["epoch"] for row in csv.DictReader(log)] == ["0", "1"]
    plain = keras.models.load_model(tmp_path / "best.keras")
    saved = "".join(np.asarray(w, "float64").tobytes().hex()[:64] for w in plain.get_weights())
    assert saved == first["weights"]

    first, second = workers("restored", tmp_path)
    assert first["weights"] == second["weights"]
    assert first["epochs"] == second["epochs"] == [2]
    assert not (tmp_path / "backup").exists()


def test_an_unseeded_shuffle_uses_every_row_once(tmp_path: Path) -> None:
    for seen in workers("unseeded", tmp_path):
        assert seen["used"] == seen["expected"]


def test_workers_that_read_different_data_are_told_so(tmp_path: Path) -> None:
    for seen in workers("different", tmp_path):
        assert "worker 1 reads other batches than worker 0" in seen["error"]
        assert "auto_shard_policy" in seen["error"]


def test_workers_with_data_of_different_lengths_are_told_so(tmp_path: Path) -> None:
    for seen in workers("lengths", tmp_path):
        assert "worker 0: 3, worker 1: 2" in seen["error"]


def test_workers_with_shards_of_unequal_size_weigh_every_row_alike(tmp_path: Path) -> None:
    """Steps of 5 + 5, 5 + 2 and 3 + 0 rows, in NumPy."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 3)), rng.normal(size=(20, 1))
    w = np.ones((3, 1))
    for rows in ([*range(5), *range(13, 18)], [*range(5, 10), 18, 19], [10, 11, 12]):
        part = x[rows]
        w = w - 0.125 * 2 * part.T @ (part @ w - y[rows]) / len(rows)
    for seen in workers("own_shards", tmp_path):
        np.testing.assert_allclose(seen["kernel"], w.ravel(), rtol=1e-12)
