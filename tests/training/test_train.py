"""Whole runs, small ones."""

from __future__ import annotations

import importlib
import io
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from rich.console import Console

from tests.training.configs import MODULE, make_config
from tfdp.errors import ConfigError, DataError, RunError, TfdpError
from tfdp.training import TrainResult, checkpoint_file, train
from tfdp.training.metrics_log import read_metrics

DEADLINE_SECONDS = 120


def run(folder: Path, *, resume: bool = False, **changes: Any) -> TrainResult:
    console = Console(file=io.StringIO(), width=100)
    return train(make_config(folder, **changes), resume=resume, console=console)


def weights(run_directory: Path) -> list[np.ndarray]:
    model = keras.saving.load_model(run_directory / "model.keras")
    return [np.asarray(variable) for variable in model.variables + model.optimizer.variables]


def test_a_run_leaves_what_it_promises(tmp_path: Path) -> None:
    before = time.time()
    result = run(tmp_path, output__tensorboard=True)
    root = result.run_directory
    assert root == tmp_path / "run"
    files = {str(path.relative_to(root)).split(".v2")[0] for path in root.rglob("*")}
    assert {
        "config.yaml",
        "metrics.jsonl",
        "model.keras",
        "checkpoints/step-00000003.npz",
        "checkpoints/step-00000006.npz",
        "tensorboard/train",
        "tensorboard/validation",
    } <= files
    assert not [name for name in files if "partial" in name]
    names = {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert set(result.history) == names
    assert {len(values) for values in result.history.values()} == {2}
    assert result.metrics == {name: result.history[name][-1] for name in names}

    records = read_metrics(root / "metrics.jsonl")
    assert [(r["kind"], r["epoch"], r["step"]) for r in records] == [
        ("epoch", 1, 3),
        ("epoch", 2, 6),
    ]
    for record, loss in zip(records, result.history["loss"], strict=True):
        assert record["loss"] == loss
        assert set(record["metrics"]) == names - {"loss"}
        assert record["replicas"] == 1
        assert before <= record["time"] <= time.time()
        assert record["images_per_second"] > 0


def test_the_saved_model_is_the_one_that_was_validated(tmp_path: Path) -> None:
    result = run(tmp_path)
    x, y = importlib.import_module(MODULE).rows(10, seed=1)
    model = keras.saving.load_model(result.run_directory / "model.keras")
    found = model.predict(x, verbose=0).argmax(axis=1)
    assert (found == y).mean() == pytest.approx(result.metrics["val_accuracy"])


def test_trains_what_plain_keras_trains(tmp_path: Path) -> None:
    """The same rows in the same order, by a loop of one's own on NumPy batches."""
    result = run(tmp_path, data__shuffle=False, training__epochs=3)
    functions = importlib.import_module(MODULE)
    x, y = functions.rows()
    keras.utils.set_random_seed(1)
    model = functions.linear()
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    for _ in range(3):
        for first in range(0, 22, 8):
            model.train_on_batch(x[first : first + 8], y[first : first + 8])
    trained = keras.saving.load_model(result.run_directory / "model.keras")
    for mine, theirs in zip(trained.variables, model.variables, strict=True):
        np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=1e-5, atol=1e-7)


@pytest.mark.multi_process
def test_plain_keras_in_another_process_predicts_the_same(tmp_path: Path) -> None:
    result = run(tmp_path)
    path = result.run_directory / "model.keras"
    x = np.random.default_rng(5).normal(size=(7, 4)).astype("float32")
    expected = keras.saving.load_model(path).predict(x, verbose=0)
    np.save(tmp_path / "x.npy", x)
    code = (
        "import sys, keras, numpy as np\n"
        "x = np.load(sys.argv[2])\n"
        "np.save(sys.argv[3], keras.saving.load_model(sys.argv[1]).predict(x, verbose=0))\n"
        "assert not [name for name in sys.modules if name.startswith('tfdp')]\n"
    )
    paths = [str(path), str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    done = subprocess.run(
        [sys.executable, "-c", code, *paths],
        cwd=tmp_path,
        timeout=DEADLINE_SECONDS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-6)


@pytest.mark.parametrize("steps_per_epoch", [None, 2])
def test_a_resumed_run_is_an_uninterrupted_one(tmp_path: Path, steps_per_epoch: int | None) -> None:
    common: dict[str, Any] = {
        "training__steps_per_epoch": steps_per_epoch,
        "model__arguments": {"dropout": 0.3},
    }
    whole = run(tmp_path, training__epochs=4, **common)
    common["output__directory"] = str(tmp_path / "parts")
    run(tmp_path, training__epochs=1, **common)
    parts = run(tmp_path, training__epochs=4, resume=True, **common)
    assert parts.history == whole.history
    for mine, theirs in zip(
        weights(parts.run_directory), weights(whole.run_directory), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)
    for one in (whole, parts):
        records = read_metrics(one.run_directory / "metrics.jsonl")
        steps = steps_per_epoch or 3
        assert [record["step"] for record in records] == [steps * n for n in (1, 2, 3, 4)]


def test_a_resume_drops_what_was_logged_after_the_checkpoint(tmp_path: Path) -> None:
    result = run(tmp_path, training__epochs=3)
    (result.run_directory / "checkpoints" / "step-00000009.npz").unlink()
    again = run(tmp_path, training__epochs=3, resume=True)
    assert again.history == result.history
    records = read_metrics(result.run_directory / "metrics.jsonl")
    assert [record["epoch"] for record in records] == [1, 2, 3]


def test_a_finished_run_resumes_to_itself(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert run(tmp_path, resume=True).history == result.history
    with pytest.raises(RunError, match=r"has trained 2 epochs, and training\.epochs is 1"):
        run(tmp_path, resume=True, training__epochs=1)


def test_a_run_without_a_checkpoint_yet_starts_again(tmp_path: Path) -> None:
    result = run(tmp_path, output__checkpoints={"every_epochs": 0})
    assert list((result.run_directory / "checkpoints").iterdir()) == []
    again = run(tmp_path, output__checkpoints={"every_epochs": 0}, resume=True)
    assert again.history == result.history


def test_checkpoints_come_every_few_epochs_and_at_the_end(tmp_path: Path) -> None:
    result = run(tmp_path, training__epochs=5, output__checkpoints={"every_epochs": 2, "keep": 2})
    names = sorted(path.name for path in (result.run_directory / "checkpoints").iterdir())
    assert names == ["step-00000012.npz", "step-00000015.npz"]


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({"data__function": "rows"}, 3),
        ({"data__function": "dataset"}, 3),
        ({"data__function": "dataset", "data__arguments": {"repeat": True},
          "training__steps_per_epoch": 4}, 4),
        ({"data__function": "dataset", "training__steps_per_epoch": 7}, 7),
        ({"data__function": "rows", "data__validation_fraction": 0.25}, 2),
        ({"model__function": "unbuilt"}, 3),
        ({"model__function": "compiled"}, 3),
        ({"training__steps_per_execution": 2}, 3),
        ({"training__epochs": 0}, 0),
        ({"optimizer__arguments": {"use_ema": True, "clipnorm": 1.0}}, 3),
    ],
    ids=str,
)  # fmt: skip
def test_kinds_of_runs(tmp_path: Path, changes: dict[str, Any], steps: int) -> None:
    result = run(tmp_path, **({"training__epochs": 1} | changes))
    assert len(result.history.get("loss", [])) == (1 if steps else 0)
    assert (result.run_directory / "model.keras").is_file()
    records = read_metrics(result.run_directory / "metrics.jsonl")
    assert [record["step"] for record in records] == ([steps] if steps else [])


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"data__function": "labels_out_of_range"}, DataError, "label 7 in row 5"),
        ({"data__arguments": {"x": 1}}, ConfigError, "cannot be called with"),
        ({"data__function": "dataset", "data__arguments": {"repeat": True}}, DataError,
         "never ends"),
        ({"data__function": "dataset", "data__arguments": {"batch": 9}}, DataError,
         "have 9 rows, but data.global_batch is 8"),
        ({"data__function": "dataset", "data__arguments": {"classes": 99}}, DataError,
         "training stopped after step 0: Received a label value of"),
        ({"model__arguments": {"width": 5}}, DataError, "but the model takes"),
        ({"model__function": "unsavable"}, ConfigError, "Odd could not be saved.*no config"),
        ({"optimizer__arguments": {"momentum": 1}}, ConfigError, "unknown argument of adam"),
        ({"training__loss": "categorical_crossentropy"}, RunError, "training stopped after step 0"),
        ({"training__metrics": ["accuracyy"]}, ConfigError, "training.metrics"),
    ],
    ids=str,
)  # fmt: skip
def test_bad_input_is_an_error_in_words(
    tmp_path: Path, changes: dict[str, Any], kind: type[TfdpError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        run(tmp_path, **changes)


def test_a_run_that_diverges_is_stopped_at_its_step(tmp_path: Path) -> None:
    # A step of 1e30 is finite, and the square of what the model says after it is not.
    with pytest.raises(RunError, match=r"step 2 \(epoch 1, step 2\): the loss itself is"):
        run(
            tmp_path,
            data__function="line",
            model__function="regression",
            optimizer={"name": "sgd", "learning_rate": 1e30},
            training__loss="mean_squared_error",
            training__metrics=[],
        )


def test_an_existing_run_is_left_alone(tmp_path: Path) -> None:
    result = run(tmp_path)
    before = {path: path.read_bytes() for path in result.run_directory.rglob("*.*")}
    with pytest.raises(RunError, match="exists already"):
        run(tmp_path)
    assert {path: path.read_bytes() for path in result.run_directory.rglob("*.*")} == before


def test_a_disk_that_fills_up_leaves_the_epochs_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = checkpoint_file._write_array

    def fill(archive: Any, name: str, value: np.ndarray) -> None:
        if "00000006" in archive.filename and name.startswith("00003"):
            raise OSError(28, "No space left on device")
        stock(archive, name, value)

    monkeypatch.setattr(checkpoint_file, "_write_array", fill)
    with pytest.raises(RunError, match="No space left on device"):
        run(tmp_path)
    monkeypatch.undo()
    whole = run(tmp_path, resume=True)
    assert len(whole.history["loss"]) == 2
    records = read_metrics(whole.run_directory / "metrics.jsonl")
    assert [record["epoch"] for record in records] == [1, 2]


def test_precision_is_put_back(tmp_path: Path) -> None:
    before = keras.config.dtype_policy().name
    run(tmp_path, training__mixed_precision="bfloat16", training__epochs=1)
    assert keras.config.dtype_policy().name == before


@pytest.mark.multi_process
def test_two_replicas_by_the_command_line(tmp_path: Path, repository: Path) -> None:
    one = run(tmp_path, training__epochs=1)
    config = make_config(
        tmp_path,
        strategy__kind="mirrored",
        strategy__devices=2,
        strategy__sync_batch_norm=True,
        training__epochs=1,
        output__directory=str(tmp_path / "two"),
    )
    (tmp_path / "two.yaml").write_text(config.to_yaml())
    done = subprocess.run(
        [sys.executable, "-m", "tfdp", "train", str(tmp_path / "two.yaml")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(repository)},
        timeout=DEADLINE_SECONDS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "2 replicas" in done.stdout
    (record,) = read_metrics(tmp_path / "two" / "metrics.jsonl")
    assert record["replicas"] == 2
    assert record["loss"] == pytest.approx(one.metrics["loss"], rel=1e-5)
    for mine, theirs in zip(weights(tmp_path / "two"), weights(one.run_directory), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)
