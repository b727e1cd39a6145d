"""A tf.data service with a dispatcher and two workers on loopback."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.data.sources.written import CASES, ROWS, picture, png
from tests.data.streams import NumberStream
from tfdp.data import service as service_module
from tfdp.data.arrays import Arrays
from tfdp.data.batches import EpochBatches
from tfdp.data.failures import data_errors
from tfdp.errors import DataError

S = tf.data.experimental.service


@pytest.fixture(scope="module")
def workers() -> list[Any]:
    dispatcher = S.DispatchServer(S.DispatcherConfig(port=0))
    address = dispatcher.target.split("://")[1]
    started = [S.WorkerServer(S.WorkerConfig(dispatcher_address=address)) for _ in range(2)]
    return [dispatcher.target, dispatcher, *started]  # servers live as long as they are held


def targets(dataset: tf.data.Dataset) -> list[list[int]]:
    return [y.tolist() for _, y, *_ in dataset.as_numpy_iterator()]


def numbered(rows: int = 23) -> Arrays:
    return Arrays(np.arange(rows, dtype=np.float32)[:, None], np.arange(rows))


def test_order_and_position_are_those_without_a_service(workers: list[Any], tmp_path: Path) -> None:
    source: Any = CASES["image_folder"].make(tmp_path)
    here = EpochBatches(source, global_batch=5, seed=3)
    there = EpochBatches(source, global_batch=5, seed=3, service=workers[0])
    assert there.dataset.element_spec == here.dataset.element_spec
    assert int(there.dataset.cardinality()) == 5
    for epoch, step in ((0, 0), (1, 3)):
        here.set_position(epoch, step)
        there.set_position(epoch, step)
        expected = list(here.dataset.as_numpy_iterator())
        found = list(there.dataset.as_numpy_iterator())
        assert len(found) == len(expected) == 5 - step
        for (x, y), (x_there, y_there) in zip(expected, found, strict=True):
            np.testing.assert_array_equal(x, x_there)
            np.testing.assert_array_equal(y, y_there)
        for worker in range(2):
            shares = [
                targets(each.dataset.tfdp_workload.share(worker, 2, 2)) for each in (here, there)
            ]
            assert shares[0] == shares[1]


@pytest.mark.parametrize("options", [{"remainder": "pad"}, {"steps": 7}, {"shard": "off"}])
def test_every_example_once(workers: list[Any], options: dict[str, Any]) -> None:
    here = EpochBatches(numbered(), global_batch=6, **options)
    there = EpochBatches(numbered(), global_batch=6, **options, service=workers[0])
    assert targets(there.dataset) == targets(here.dataset)


def test_what_the_service_loses_is_done_here(
    workers: list[Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    batches = EpochBatches(numbered(), global_batch=2, service=workers[0])
    expected = targets(EpochBatches(numbered(), global_batch=2).dataset)
    results = service_module.Service._results
    monkeypatch.setattr(service_module, "_WAITING_PIECES", 4)
    monkeypatch.setattr(
        service_module.Service,
        "_results",
        lambda self, whole: (r for r in results(self, whole) if int(r[0]) not in (0, 5, 11)),
    )
    assert targets(batches.dataset) == expected
    assert "lost piece 5" in caplog.text


def test_bad_pictures_are_named(workers: list[Any], tmp_path: Path) -> None:
    source: Any = CASES["image_folder"].make(tmp_path)
    (tmp_path / "07" / "one.png").write_bytes(png(picture(1, (5, 5, 1))))
    batches = EpochBatches(source, global_batch=5, service=workers[0])
    with pytest.raises(DataError, match=r"07/one.png: .*not 2 by 3"), data_errors(source):
        targets(batches.dataset)
    assert source.rows == ROWS


def test_refusals(workers: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DataError, match=f"nobody answers at grpc://127.0.0.1:{port}"):
        EpochBatches(numbered(), global_batch=5, service=f"grpc://127.0.0.1:{port}")
    with pytest.raises(DataError, match="it is read from front to back"):
        EpochBatches(NumberStream([3]), global_batch=2, service=workers[0])
    alone = S.DispatchServer(S.DispatcherConfig(port=0))
    monkeypatch.setattr(service_module, "FIRST_PIECE_SECONDS", 1.0)
    batches = EpochBatches(numbered(), global_batch=5, service=alone.target)
    with pytest.raises(DataError, match=r"no worker of grpc://.* has sent anything"), data_errors():
        targets(batches.dataset)
