"""Sums of three processes in memory that they share."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.collectives import memory_program as cases
from tests.collectives.mpi_group import run
from tfdp.collectives import shared_memory

PROGRAM = "tests.collectives.memory_program"
RANKS = range(3)

pytestmark = pytest.mark.multi_process


@pytest.fixture(scope="module")
def results(tmp_path_factory: Any) -> list[dict[str, Any]]:
    return run("sums", tmp_path_factory.mktemp("sums"), len(RANKS), PROGRAM)


@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_sums_of_whole_numbers_are_exact(results: list[dict[str, Any]], dtype: str) -> None:
    """From one element to more than five pieces, and to both sides of each limit."""
    for place, size in enumerate(cases.sizes(dtype)):
        given = [cases.integers(dtype, size, rank).astype(np.float64) for rank in RANKS]
        for result in results:
            np.testing.assert_array_equal(result[f"exact {dtype}"][place], sum(given))


@pytest.mark.parametrize("dtype", cases.DTYPES[2:])
def test_rounding_is_bounded_and_the_same_everywhere(
    results: list[dict[str, Any]], dtype: str
) -> None:
    """Within (N - 1) eps sum|x| (Higham 2002, eq. 4.4)."""
    values = np.array([cases.normal(dtype, rank).astype(np.float64) for rank in RANKS])
    bound = 2 * float(ml_dtypes.finfo(cases.dtype_of(dtype)).eps) * np.abs(values).sum(axis=0)
    found = [result[f"normal {dtype}"] for result in results]
    assert (np.abs(found[0] - values.sum(axis=0)) <= bound).all()
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()


def test_several_vectors_that_pieces_cut_anywhere(results: list[dict[str, Any]]) -> None:
    for place, size in enumerate(cases.MEMBERS):
        given = [cases.integers("float32", size, rank).astype(np.float64) for rank in RANKS]
        for result in results:
            np.testing.assert_array_equal(result["members"][place], sum(given))


def test_ranks_that_are_about_to_do_other_things_are_told_so(results: list[dict[str, Any]]) -> None:
    after = sum(cases.integers("float32", 700_000, rank).astype(np.float64) for rank in RANKS)
    for result in results:
        assert result["agree"] is None
        assert result["differ"] == [f"the gather of rank {rank}" for rank in RANKS]
        assert result["other sums"] == ["3 numbers", "600000 numbers", "600000 numbers"]
        np.testing.assert_array_equal(result["after"], after)


def test_no_rank_overtakes_another(tmp_path: Path) -> None:
    assert run("many", tmp_path, len(RANKS), PROGRAM) == [{"wrong": 0}] * 3


@pytest.mark.parametrize(
    ("free_mb", "workers", "enough"), [(64, 8, True), (64, 16, False), (0, 2, False)]
)
def test_little_room_is_seen_before_it_is_used(
    free_mb: int, workers: int, enough: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker takes 3 MiB; as much again is left to others."""
    monkeypatch.setattr(shared_memory, "_WHERE", tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free_mb * 10**6))
    assert shared_memory.has_room(workers) is enough


def test_no_shared_memory_without_a_place_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_memory, "_WHERE", tmp_path / "none")
    assert not shared_memory.has_room(2)
