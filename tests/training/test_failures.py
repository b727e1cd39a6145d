"""Errors from inside TensorFlow and Keras."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.data.sources.written import NUMBERS, example, open_source, write_records
from tfdp.errors import ClusterError, ConfigError, DataError, RunError, TfdpError
from tfdp.training.failures import training_errors


def raise_inside(error: BaseException, workers: int = 1) -> None:
    with training_errors(lambda: "step 12", workers=workers):
        raise error


E = tf.errors
SHAPES = "Shape mismatch in the collective instance 101. Op at device"
DTYPES = "Collective instance 7 expected type 0 and data_type 1 but got type 0"
MPI = "ClusterError: the workers came to different reductions (worker 0: a sum"


@pytest.mark.parametrize(
    ("error", "workers", "kind", "message"),
    [
        (E.InvalidArgumentError(None, None, "label 9"), 1, DataError, "after step 12: label 9"),
        (E.ResourceExhaustedError(None, None, "OOM"), 1, RunError, "out of memory or disk"),
        (E.UnavailableError(None, None, "reset"), 2, ClusterError, "another worker is gone: reset"),
        (E.UnavailableError(None, None, "reset"), 1, RunError, "UnavailableError: reset"),
        (E.InternalError(None, None, "odd"), 2, RunError, "InternalError: odd"),
        (E.InvalidArgumentError(None, None, SHAPES), 2, ClusterError, "different reductions"),
        (E.InternalError(None, None, DTYPES), 2, ClusterError, "different reductions"),
        (E.UnknownError(None, None, MPI, 2), 2, ClusterError, "different reductions"),
        (ValueError("shapes\n  differ"), 1, RunError, "ValueError: shapes differ"),
    ],
)
def test_are_told_in_the_terms_of_a_run(
    error: Exception, workers: int, kind: type[TfdpError], message: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        raise_inside(error, workers)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [ConfigError("mine"), KeyboardInterrupt(), KeyError("bug")])
def test_others_pass(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        raise_inside(error)
    assert caught.value is error


def test_nodes_of_the_graph_are_left_out() -> None:
    noise = (
        "Graph execution error:\n\nDetected at node x/y defined at (most recent call last):\n"
        '  File "a.py", line 3, in f\n\n<stack traces unavailable>\n'
        "bad label\n\t [[{{node x/y}}]] [Op:__inference_1]"
    )
    with pytest.raises(DataError) as caught:
        raise_inside(E.InvalidArgumentError(None, None, noise))
    assert str(caught.value) == "training stopped after step 12: bad label"
    with pytest.raises(RunError, match=r"x{600}\.\.\.$"):
        raise_inside(ValueError("x" * 5000))


def test_the_damaged_file_is_one_of_those_that_are_read(tmp_path: Path) -> None:
    sources = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        write_records(tmp_path / name / "a.tfrecord", [example(x=np.ones(3), y=1)] * 3, "")
        options = {"files": "*.tfrecord", "features": NUMBERS, "target": "y"}
        sources.append(open_source("tfrecord", tmp_path / name, "fail", **options))
    for name in ("first", "second"):
        path = tmp_path / name / "a.tfrecord"
        path.write_bytes(path.read_bytes()[:-5])
    for source, name in zip(sources, ("first", "second"), strict=True):
        with (
            pytest.raises(DataError, match=rf"{name}/a.tfrecord"),
            training_errors(lambda: "step 1", [source], workers=1),
        ):
            raise tf.errors.DataLossError(None, None, "truncated record")
