"""`tfdp.launch`; only the last test loads TensorFlow."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import tfdp
from tests.launcher import functions_for_workers as functions
from tfdp.errors import DataError, PreemptedError, StrategyError, WorkerError

pytestmark = pytest.mark.multi_process

DEADLINE_SECONDS = 30.0


def launch(fn: Callable[..., Any] | str, *args: Any, **changes: Any) -> list[Any]:
    results = tfdp.launch(fn, args=args, **({"timeout": DEADLINE_SECONDS} | changes))
    assert psutil.Process().children(recursive=True) == []
    return results


def test_each_result_in_the_workers_order() -> None:
    arguments = (None, True, 3, 0.1, "\u00e4\n", [1, (2, {"k": []})], ["array", ["a0", False]])
    assert launch(functions.echo, *arguments, workers=3) == [[i, *arguments] for i in range(3)]


def test_a_function_by_name() -> None:
    assert launch("tests.launcher.functions_for_workers:index", workers=1) == [0]


def test_arrays() -> None:
    for index, result in enumerate(launch(functions.arrays, 0.5)):
        np.testing.assert_array_equal(result["a"], np.array([0, 0.5, 1, 1.5], np.float32))
        assert result["a"].dtype == np.float32
        assert (result["s"], type(result["s"]), result["t"]) == (index, np.float64, (1, None))


def test_arrays_as_arguments() -> None:
    images = np.arange(6, dtype=np.uint8).reshape(2, 3)
    for result in launch(functions.echo, images, {"n": images[:0]}):
        np.testing.assert_array_equal(result[1], images)
        assert (result[2]["n"].shape, result[2]["n"].dtype) == ((0, 3), np.uint8)


def test_an_exception_comes_back_with_its_traceback() -> None:
    start = time.monotonic()
    with pytest.raises(WorkerError, match=r"^worker 1 raised ValueError: not today\n") as caught:
        launch(functions.fails)
    assert time.monotonic() - start < 10
    assert caught.value.worker == 1
    assert "functions_for_workers.py" in caught.value.traceback_text
    assert 'raise ValueError("not today")' in str(caught.value)


def test_a_worker_that_dies() -> None:
    with pytest.raises(WorkerError, match=r"^worker 1 died with signal 6 \(SIGABRT\)") as caught:
        launch(functions.dies)
    assert "last words" in str(caught.value)


def test_workers_that_have_saved_after_a_signal() -> None:
    with pytest.raises(PreemptedError, match="the workers were told to end, have saved and left"):
        launch(functions.saves)


def test_a_worker_that_leaves() -> None:
    with pytest.raises(WorkerError, match="has left without a result"):
        launch(functions.leaves)


def test_the_time_is_up() -> None:
    with pytest.raises(WorkerError, match=r"after 1\.5 s the function still ran in worker 1\n"):
        launch(functions.sleeps, timeout=1.5)
    assert psutil.Process().children(recursive=True) == []


def test_a_result_that_cannot_come_back() -> None:
    with pytest.raises(WorkerError, match=r"DataError: the result is a builtins\.object"):
        launch(functions.returns_an_object)


def test_the_output_of_the_first_worker_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    tfdp.launch("builtins:print", args=("hello",), timeout=DEADLINE_SECONDS)
    assert stream.getvalue() == "[worker 0] hello\n"


def test_a_function_inside_a_function_brings_its_source_text() -> None:
    def inner(factor: int) -> int:
        import json
        import os

        return factor * int(json.loads(os.environ["TF_CONFIG"])["task"]["index"])

    assert launch(inner, 7) == [0, 7]


def test_a_closure() -> None:
    secret = 3

    def inner() -> int:
        return secret

    with pytest.raises(DataError, match="inner uses secret of the function around it"):
        launch(inner)


def test_names_from_outside() -> None:
    def inner() -> Any:
        return [np.zeros(len(os.sep)) for _ in range(2)]

    with pytest.raises(DataError, match=r"which a worker does not have: np, os\n"):
        launch(inner)


@pytest.mark.parametrize(
    ("fn", "problem"),
    [
        (lambda: 1, "a lambda has no name"),
        ("os.getpid", '"os.getpid" is not of the form module:function'),
        (io.StringIO().getvalue, "a worker runs a function, got builtin_function_or_method"),
        (3, "a worker runs a function, got int: 3"),
    ],
)
def test_what_is_no_function(fn: Any, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        launch(fn)


@pytest.mark.parametrize(
    ("fn", "problem"),
    [
        ("no_such_module:f", "raised ModuleNotFoundError: No module named 'no_such_module'"),
        ("os:no_such", "raised DataError: there is no function no_such in os"),
    ],
)
def test_a_name_that_is_wrong(fn: str, problem: str) -> None:
    with pytest.raises(WorkerError, match=problem):
        launch(fn)


def _holds_itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (object(), r"args\[0\] is a builtins.object, which cannot go to another process"),
        ({1: 2}, r"args\[0\] has the key 1; between processes keys must be str"),
        ([b"x"], r"args\[0\]\[0\] is a builtins.bytes, which"),
        (np.array([object()]), r"args\[0\] is an array of object"),
        (_holds_itself(), "is nested more than 100 deep, or holds itself"),
    ],
)
def test_arguments_that_cannot_go(value: Any, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        launch(functions.echo, value)


@pytest.mark.parametrize("changes", [{"workers": 0}, {"workers": True}, {"devices_per_worker": -1}])
def test_counts_below_one(changes: dict[str, Any]) -> None:
    with pytest.raises(StrategyError, match="must be an integer of at least 1, got"):
        launch(functions.echo, **changes)


SCRIPT = """
import sys
import tfdp

NAME = "a name of the script"

def work(times):
    return [NAME] * times

if __name__ == "__main__":
    print(tfdp.launch(work, args=(2,), timeout=30))
    heavy = {"tensorflow", "keras", "numpy"} & set(sys.modules)
    assert not heavy, heavy
"""


def run_python(arguments: list[str], folder: Path, repository: Path, text: str = "") -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        input=text,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(repository)},
        timeout=DEADLINE_SECONDS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_function_of_the_running_script(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    expected = [["a name of the script"] * 2] * 2
    assert run_python(["script.py"], tmp_path, repository) == f"{expected}\n"


def test_a_function_of_a_notebook_cell(repository: Path, tmp_path: Path) -> None:
    """As IPython does it: the cell's text is in `linecache`, and its file does not exist."""
    notebook = """
        import linecache
        cell = "def work(n: Undefined) -> list:\\n    import math\\n    return [math.sqrt(n)]\\n"
        name = "<ipython-input-1-abc>"
        linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
        exec(compile(cell, name, "exec", dont_inherit=True, flags=0x1000000))
        import tfdp
        print(tfdp.launch(work, args=(9,), timeout=30))
    """
    shown = run_python(["-"], tmp_path, repository, textwrap.dedent(notebook))
    assert shown == "[[3.0], [3.0]]\n"


@pytest.mark.slow
def test_training_on_two_workers_is_training_on_one_device() -> None:
    import keras

    results = launch(functions.trains, 12, workers=2, devices_per_worker=2, timeout=120)
    assert [result["replicas"] for result in results] == [4, 4]
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(12, 3)), rng.normal(size=(12, 1))
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, "tanh")])
    model.set_weights([np.ones((3, 1)), np.zeros(1)])
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    model.fit(x, y, batch_size=6, epochs=1, shuffle=False, verbose=0)
    for result in results:
        for ours, expected in zip(result["weights"], model.get_weights(), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)
