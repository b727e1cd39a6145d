"""Two workers on files of 16, 4 and 0 rows: real processes, compared with NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.rows import BATCH, FEATURES, inputs, trained
from tests.data.sources.written import example, write_records
from tests.workers import run_workers
from tfdp.data.arrays import Arrays
from tfdp.data.batches import EpochBatches
from tfdp.data.sources.registry import Context, load_source

pytestmark = [pytest.mark.multi_process, pytest.mark.slow]
DEADLINE_SECONDS = 240

FILES = {"0": range(16), "1": range(16, 20), "2": range(0)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows")
    for name, rows in FILES.items():
        examples = [example(x=x, y=y) for x, y in zip(*inputs(rows), strict=True)] if rows else []
        write_records(path / f"{name}.tfrecord", examples)
    return path


@pytest.fixture(scope="module")
def results(folder: Path) -> list[dict[str, Any]]:
    """What each worker printed."""
    return run_workers(
        "tests.data.worker_program",
        str(folder),
        deadline_seconds=DEADLINE_SECONDS,
        start_timeout_seconds=120,
    )


def order(batches: EpochBatches, epochs: int) -> list[list[int]]:
    """The rows of each step, which `tests/data/test_tickets.py` has found to be right."""
    number = {tuple(x): i for i, x in enumerate(np.column_stack(inputs(range(20))).tolist())}
    steps = []
    for epoch in range(epochs):
        batches.set_epoch(epoch)
        for x, y in batches.dataset.as_numpy_iterator():
            steps.append([number[tuple(row)] for row in np.column_stack([x, y]).tolist()])
    return steps


OWN = [[0, 1, 2, 16, 17], [3, 4, 5, 18, 19], [6, 7, 8], [9, 10, 11], [12, 13], [14, 15]]
"""A batch of six from each worker's file makes two steps of three rows."""

FILE = [[0, 1, 2, 16, 17, 18], [3, 4, 5, 19], [6, 7, 8], [9, 10, 11], [12, 13, 14], [15]]
"""Three rows a step from each worker's files."""


@pytest.mark.parametrize(
    ("task", "steps"),
    [
        ("own", OWN),
        ("file", FILE * 2),
        ("mine", FILE),
        ("too_few", [range(6), range(6, 12), range(12, 16)]),
    ],
)
def test_every_row_weighs_alike(results: list[Any], task: str, steps: Any) -> None:
    for result in results:
        np.testing.assert_allclose(result[task], trained(steps), rtol=1e-6)


def test_rows_and_streams_are_those_of_one_device(results: list[Any], folder: Path) -> None:
    rows = EpochBatches(Arrays(*inputs(range(20))), global_batch=BATCH, seed=5)
    arguments = {"files": "*.tfrecord", "features": FEATURES, "target": "y"}
    source: Any = load_source("tfrecord", arguments, Context(folder)).train
    stream = EpochBatches(source, global_batch=BATCH, seed=5, shuffle_buffer=7)
    for task, batches in (("rows", rows), ("stream", stream)):
        steps = order(batches, 2)
        assert sorted(row for step in steps for row in step) == sorted([*range(20), *range(20)])
        for result in results:
            np.testing.assert_allclose(result[task], trained(steps), rtol=1e-6)


def test_what_cannot_be_is_said(results: list[Any]) -> None:
    for result in results:
        (warning,) = result["warnings"]
        assert warning == (
            "auto_shard_policy FILE is taken for DATA: worker 1 would have no examples: there are "
            "fewer files than workers, or empty ones"
        )
        assert "worker 1 reads other batches than worker 0" in result["different"]
