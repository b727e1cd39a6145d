"""What every source has to do: each example once, in one order, from any position."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.data.sources.written import CASES, ROWS, inputs
from tfdp.data.batches import EpochBatches
from tfdp.data.checking import first_fault


@pytest.fixture(scope="module", params=list(CASES))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    found = CASES[request.param]
    return found, found.make(tmp_path_factory.mktemp(request.param))


def targets(dataset: Any) -> list[list[int]]:
    return [y.tolist() for _, y, *_ in dataset.as_numpy_iterator()]


def test_unshuffled_examples_come_once_and_in_their_order(case: Any) -> None:
    expected, source = case
    batches = EpochBatches(source, global_batch=5, shuffle=False)
    elements = list(batches.dataset.as_numpy_iterator())
    assert [len(y) for _, y in elements] == [5, 5, 5, 5, 3]
    x, y = (np.concatenate(parts) for parts in zip(*elements, strict=True))
    assert y.tolist() == list(range(ROWS))
    if expected.pictures:
        assert x.shape == (ROWS, 2, 3, 1)
        level = np.arange(ROWS, dtype=np.float32) / 255
        np.testing.assert_array_equal(x, np.broadcast_to(level[:, None, None, None], x.shape))
    else:
        np.testing.assert_array_equal(x, inputs(range(ROWS)))
    spec = batches.dataset.element_spec
    assert (spec[0].shape[1:], spec[0].dtype) == (x.shape[1:], "float32")


def test_shuffled_batches_are_the_same_for_any_cut_and_from_any_position(case: Any) -> None:
    _, source = case
    batches = EpochBatches(source, global_batch=5, seed=7)
    batches.set_epoch(3)
    whole = targets(batches.dataset)
    order = [i for batch in whole for i in batch]
    assert sorted(order) == list(range(ROWS)) != order
    batches.set_position(3, 2)
    workload = batches.dataset.tfdp_workload
    parts = [targets(workload.share(worker, 2, 2)) for worker in range(2)]
    steps = [
        [i for replica in (0, 1) for part in parts for i in part[2 * step + replica]]
        for step in range(len(parts[0]) // 2)
    ]
    assert steps == whole[2:]


@pytest.mark.parametrize(("remainder", "sizes"), [("drop", [5] * 4), ("pad", [5] * 5)])
def test_remainders(case: Any, remainder: str, sizes: list[int]) -> None:
    _, source = case
    batches = EpochBatches(source, global_batch=5, seed=7, remainder=remainder)
    elements = list(batches.dataset.as_numpy_iterator())
    assert [len(y) for _, y, *_ in elements] == sizes
    if remainder == "pad":
        counted = [i for _, y, w in elements for i, weight in zip(y, w, strict=True) if weight]
        assert sorted(counted) == list(range(ROWS))


def test_nothing_is_wrong_with_it(case: Any) -> None:
    _, source = case
    batches = EpochBatches(source, global_batch=5)
    assert first_fault(batches.source) is None
    assert batches.source.rows in (ROWS, None)
    assert batches.source.fingerprint() == batches.source.fingerprint()
    assert batches.source.where(0)
