"""The comparison reports what is wrong: TensorFlow's own MirroredStrategy is the fault put in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parity.groups import Group
from tfdp.parity.compare import TOLERANCES, compare

pytestmark = pytest.mark.multi_process

DEADLINE_SECONDS = 240
REPLICAS = 2

# What stock TensorFlow gets right, and so must not be reported; and what it gets wrong, where.
EVEN = ["size_even"]
WRONG = {
    "size_last_batch_of_1": "optimizer/",
    "optimizer_clipnorm": "weight/",
    "optimizer_clipvalue": "weight/",
    "loss_reduction_mean_with_sample_weight_weighted": "weight/",
}


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> tuple[Group, Group]:
    """Plain Keras on one device, and stock TensorFlow on two."""
    folder = tmp_path_factory.mktemp("faults")
    names = [*EVEN, *WRONG]
    one = Group(
        "one_device",
        [f"1:{name}" for name in names],
        folder / "one",
        deadline_seconds=DEADLINE_SECONDS,
    )
    stock = Group(
        "stock",
        [f"{REPLICAS}:{name}" for name in names],
        folder / "stock",
        devices=REPLICAS,
        deadline_seconds=DEADLINE_SECONDS,
    )
    one.run()
    stock.run()
    return one, stock


def differences(groups: tuple[Group, Group], name: str) -> dict[str, float]:
    one, stock = groups
    found = compare(one.result(1, name), stock.result(REPLICAS, name), TOLERANCES["float64"])
    return {difference.name: difference.size for difference in found}


@pytest.mark.parametrize("name", EVEN)
def test_what_stock_tensorflow_gets_right_is_equal(name: str, groups: tuple[Group, Group]) -> None:
    assert not differences(groups, name)


@pytest.mark.parametrize(("name", "where"), WRONG.items())
def test_what_stock_tensorflow_gets_wrong_is_reported(
    name: str, where: str, groups: tuple[Group, Group]
) -> None:
    sizes = [size for key, size in differences(groups, name).items() if key.startswith(where)]
    assert max(sizes) > 1e-4


def test_a_process_that_fails_shows_the_end_of_its_log(tmp_path: Path) -> None:
    group = Group("no_such_mode", [], tmp_path, deadline_seconds=120)
    with pytest.raises(AssertionError, match="KeyError: 'no_such_mode'"):
        group.run()


def test_a_process_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    group = Group("one_device", ["1:size_even"], tmp_path, deadline_seconds=0.5)
    with pytest.raises(AssertionError, match="out of time"):
        group.run()


def test_a_case_that_raises_fails_its_test(tmp_path: Path) -> None:
    folder = tmp_path / "0" / "1"
    folder.mkdir(parents=True)
    (folder / "broken.error").write_text("Traceback: ZeroDivisionError", encoding="utf-8")
    group = Group("one_device", [], tmp_path, deadline_seconds=1)
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        group.result(1, "broken")
