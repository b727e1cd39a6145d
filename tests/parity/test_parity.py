"""N replicas against one device, case by case.

Every process runs all the cases that the chosen tests need of it, one after the other, because
starting TensorFlow takes longer than most cases. "One device" is plain Keras without a strategy.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.parity.cases import CASES
from tests.parity.cases.optimizers import OPTIMIZERS
from tests.parity.groups import Group
from tfdp.parity.compare import TOLERANCES, compare

pytestmark = pytest.mark.multi_process

FLOAT32_REPLICAS = 3
SECONDS_TO_START = 180
SECONDS_FOR_A_CASE = 60  # 1 to 5 on an idle machine


def mirrored_items() -> Iterator[Any]:
    for name, case in CASES.items():
        for count in case.counts:
            marks = [pytest.mark.slow] if count > 4 else []
            yield pytest.param(name, count, id=f"{name}-{count}", marks=marks)


def worker_items() -> Iterator[Any]:
    for name, case in CASES.items():
        for workers, devices in case.workers:
            yield pytest.param(name, workers, devices, id=f"{name}-{workers}x{devices}")


FLOAT32 = [name for name, case in CASES.items() if case.float32]


class Runs:
    """Runs a group of processes when the first test asks for it, two groups at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pool = ThreadPoolExecutor(max_workers=2)
        self._groups: dict[str, Group] = {}
        self._done: dict[str, Future[None]] = {}

    def plan(
        self,
        key: str,
        mode: str,
        wanted: list[str],
        *,
        devices: int,
        workers: int = 1,
        floatx: str = "float64",
    ) -> None:
        """Starts the group as soon as one of the two places is free."""
        if not wanted:
            return
        self._groups[key] = Group(
            mode,
            wanted,
            self._folder / key,
            workers=workers,
            devices=devices,
            floatx=floatx,
            deadline_seconds=SECONDS_TO_START + SECONDS_FOR_A_CASE * len(wanted),
        )
        self._done[key] = self._pool.submit(self._groups[key].run)

    def get(self, key: str) -> Group:
        """The group, when it has finished."""
        self._done[key].result()
        return self._groups[key]

    def close(self) -> None:
        """Starts nothing more, and waits for what runs (it has a deadline)."""
        self._pool.shutdown(wait=True, cancel_futures=True)


@pytest.fixture(scope="session")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Runs]:
    """All processes that the chosen tests of this file need."""
    chosen = [
        (item.function.__name__, item.callspec.params)
        for item in request.session.items
        if item.path == Path(__file__) and hasattr(item, "callspec")
    ]
    mirrored = {(p["name"], p["count"]) for test, p in chosen if test == test_mirrored.__name__}
    groups = {
        (p["name"], p["workers"], p["devices"])
        for test, p in chosen
        if test == test_multi_worker.__name__
    }
    float32 = [p["name"] for test, p in chosen if test == test_float32.__name__]
    float64 = {name for name, _ in mirrored} | {name for name, *_ in groups}

    runs = Runs(tmp_path_factory.mktemp("parity"))
    runs.plan("one-float64", "one_device", _one_device(float64), devices=1)
    counts = sorted({count for _, count in mirrored}, key=lambda count: (count != 3, count))
    for count in counts:
        wanted = [f"{count}:{name}" for name in CASES if (name, count) in mirrored]
        runs.plan(f"mirrored-{count}", "mirrored", wanted, devices=count)
    runs.plan("one-float32", "one_device", _one_device(float32), devices=1, floatx="float32")
    wanted = [f"{FLOAT32_REPLICAS}:{name}" for name in float32]
    runs.plan("float32", "mirrored", wanted, devices=FLOAT32_REPLICAS, floatx="float32")
    for workers, devices in sorted({group[1:] for group in groups}):
        names = [name for name in CASES if (name, workers, devices) in groups]
        wanted = [f"{workers * devices}:{name}" for name in names]
        runs.plan(f"{workers}x{devices}", "multi_worker", wanted, devices=devices, workers=workers)
    yield runs
    runs.close()


def _one_device(names: list[str] | set[str]) -> list[str]:
    needed = {CASES[name].reference or name for name in names}
    return [f"1:{name}" for name in CASES if name in needed]


def assert_equal(
    expected: dict[str, np.ndarray], actual: dict[str, np.ndarray], tolerance: float
) -> None:
    """Raises AssertionError with every value that differs by more than the tolerance."""
    differences = compare(expected, actual, tolerance)
    assert not differences, "\n".join(f"{d.name} {d.what}" for d in differences)


def expected(runs: Runs, name: str, floatx: str = "float64") -> dict[str, np.ndarray]:
    return runs.get(f"one-{floatx}").result(1, CASES[name].reference or name)


@pytest.mark.parametrize(("name", "count"), list(mirrored_items()))
def test_mirrored(name: str, count: int, runs: Runs) -> None:
    actual = runs.get(f"mirrored-{count}").result(count, name)
    assert_equal(expected(runs, name), actual, CASES[name].tolerance or TOLERANCES["float64"])


@pytest.mark.parametrize("name", FLOAT32)
def test_float32(name: str, runs: Runs) -> None:
    actual = runs.get("float32").result(FLOAT32_REPLICAS, name)
    tolerance = CASES[name].tolerance_float32 or TOLERANCES["float32"]
    assert_equal(expected(runs, name, "float32"), actual, tolerance)


@pytest.mark.parametrize(("name", "workers", "devices"), list(worker_items()))
def test_multi_worker(name: str, workers: int, devices: int, runs: Runs) -> None:
    group = runs.get(f"{workers}x{devices}")
    count = workers * devices
    results = [group.result(count, name, worker) for worker in range(workers)]
    for other in results[1:]:
        assert results[0].keys() == other.keys()
        different = [k for k in other if results[0][k].tobytes() != other[k].tobytes()]
        assert not different, f"the workers differ in {', '.join(different)}"
    tolerance = CASES[name].tolerance or TOLERANCES["float64"]
    assert_equal(expected(runs, name), results[0], tolerance)


def test_every_optimizer_of_keras_has_a_case() -> None:
    base = keras.optimizers.Optimizer
    wrapper = keras.optimizers.LossScaleOptimizer
    shipped = {
        value
        for value in vars(keras.optimizers).values()
        if inspect.isclass(value) and issubclass(value, base) and value not in (base, wrapper)
    }
    # This one has a case of its own: optimizer_schedule_free_adamw.
    covered = {type(make()) for make in OPTIMIZERS.values()} | {keras.optimizers.ScheduleFreeAdamW}
    assert shipped == covered - {wrapper}
