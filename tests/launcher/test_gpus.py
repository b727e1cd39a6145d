from __future__ import annotations

from pathlib import Path

import pytest

from tfdp.errors import StrategyError
from tfdp.launcher.environment import GroupShape, worker_environments
from tfdp.launcher.gpus import share_gpus, visible_gpus


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("", []),
        ("-1", []),
        ("0,1", ["0", "1"]),
        ("3, GPU-8f2a", ["3", "GPU-8f2a"]),
        ("2,-1,3", ["2"]),
    ],
)
def test_what_the_user_made_visible(value: str, names: list[str], tmp_path: Path) -> None:
    (tmp_path / "0000:01:00.0").mkdir()
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": value}, tmp_path) == names


def test_all_of_the_machine(tmp_path: Path) -> None:
    assert visible_gpus({}, tmp_path / "no driver") == []
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / name).mkdir()
    assert visible_gpus({}, tmp_path) == ["0", "1"]


@pytest.mark.parametrize(
    ("gpus", "workers", "each", "shares"),
    [
        ([], 2, 1, None),
        (["0", "1"], 2, None, [["0"], ["1"]]),
        (["0", "1", "2", "3", "4"], 2, None, [["0", "1"], ["2", "3"]]),
        (["4", "5", "6"], 3, 1, [["4"], ["5"], ["6"]]),
        (["0", "1", "2", "3"], 1, 2, [["0", "1"]]),
    ],
)
def test_shares(
    gpus: list[str], workers: int, each: int | None, shares: list[list[str]] | None
) -> None:
    assert share_gpus(gpus, workers, each) == shares


@pytest.mark.parametrize(("workers", "each"), [(3, None), (2, 2)])
def test_too_few(workers: int, each: int | None) -> None:
    with pytest.raises(StrategyError, match="and there are 2: two workers cannot share one"):
        share_gpus(["0", "1"], workers, each)


def test_workers_see_their_own_gpus_alone() -> None:
    found = worker_environments(
        GroupShape(2), ("a:1", "a:2"), (0, 1), {"CUDA_VISIBLE_DEVICES": "5,7"}
    )
    assert [each["CUDA_VISIBLE_DEVICES"] for each in found.values()] == ["5", "7"]


def test_the_cpu_is_left_to_tensorflow() -> None:
    found = worker_environments(
        GroupShape(1, 4), ("a:1",), (0,), {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "9"}
    )
    assert found[0]["CUDA_VISIBLE_DEVICES"] == ""
    assert found[0]["TFDP_DEVICES_PER_WORKER"] == "4"
    assert found[0]["OMP_NUM_THREADS"] == "9"
