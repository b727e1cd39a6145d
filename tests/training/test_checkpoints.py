"""Checkpoints hold everything that the next step depends on."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest

from tfdp.errors import RunError
from tfdp.training import checkpoints
from tfdp.training.checkpoints import (
    Progress,
    list_checkpoints,
    prune_checkpoints,
    restore_checkpoint,
    save_checkpoint,
)

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(16, 4)).astype("float32"), RNG.integers(0, 3, 16)


def build(units: int = 6, optimizer: str = "adam") -> keras.Model:
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(units),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile(optimizer, "sparse_categorical_crossentropy")
    return model


def steps(model: keras.Model, count: int) -> list[float]:
    return [float(model.train_on_batch(X, Y)) for _ in range(count)]


def test_training_goes_on_to_the_bit(tmp_path: Path) -> None:
    keras.utils.set_random_seed(1)
    one = build()
    steps(one, 3)
    progress = Progress(3, 30, {"loss": [3.0, 2.0, 1.0]})
    checkpoint = save_checkpoint(tmp_path, one, progress)
    expected = steps(one, 3)

    keras.utils.set_random_seed(2)
    other = build()
    assert restore_checkpoint(checkpoint, other) == progress
    assert steps(other, 3) == expected
    for mine, theirs in zip(other.variables, one.variables, strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_every_float_type_survives(tmp_path: Path, dtype: str) -> None:
    def model() -> keras.Model:
        made = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, dtype=dtype)])
        made.compile("sgd", "mse")
        return made

    one, other = model(), model()
    restore_checkpoint(save_checkpoint(tmp_path, one, Progress(1, 1, {})), other)
    for mine, theirs in zip(other.weights, one.weights, strict=True):
        assert mine.dtype == dtype
        assert (keras.ops.convert_to_numpy(mine) == keras.ops.convert_to_numpy(theirs)).all()


def test_they_are_listed_in_order_and_old_ones_removed(tmp_path: Path) -> None:
    assert list_checkpoints(tmp_path / "absent") == []
    model = build()
    for epochs in (2, 10, 1):
        save_checkpoint(tmp_path, model, Progress(epochs, epochs, {}))
    (tmp_path / "notes.txt").write_text("mine")
    assert [one.epochs for one in list_checkpoints(tmp_path)] == [1, 2, 10]
    prune_checkpoints(tmp_path, keep=2)
    assert [one.epochs for one in list_checkpoints(tmp_path)] == [2, 10]
    prune_checkpoints(tmp_path, keep=5)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "epoch-000002.npz",
        "epoch-000010.npz",
        "notes.txt",
    ]


def test_a_worker_that_does_not_write_reads_all_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build()
    read: list[str] = []
    stock = checkpoints._read

    def record(variable: keras.Variable) -> np.ndarray:
        read.append(variable.path)
        return stock(variable)

    monkeypatch.setattr(checkpoints, "_read", record)
    save_checkpoint(tmp_path, model, Progress(1, 1, {}), write=False)
    without = list(read)
    assert list(tmp_path.iterdir()) == []
    read.clear()
    save_checkpoint(tmp_path, model, Progress(1, 1, {}))
    assert without == read
    assert len(read) == len(model.variables) + len(model.optimizer.variables)


def test_plain_numpy_reads_it(tmp_path: Path) -> None:
    model = build()
    checkpoint = save_checkpoint(tmp_path, model, Progress(1, 1, {}))
    with zipfile.ZipFile(checkpoint.path) as archive:
        names = json.loads(archive.read("state.json"))["variables"]
    key = next(k for k, v in names.items() if v["name"].endswith("/kernel"))
    with np.load(checkpoint.path, allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays[key], np.asarray(model.layers[0].kernel))


@pytest.mark.parametrize(
    ("units", "optimizer", "message"),
    [(5, "adam", "has shape .* there and"), (6, "sgd", "variables, the model and optimizer")],
)
def test_refuses_another_model(tmp_path: Path, units: int, optimizer: str, message: str) -> None:
    checkpoint = save_checkpoint(tmp_path, build(), Progress(1, 1, {}))
    other = build(units, optimizer)
    before = [np.asarray(weight).copy() for weight in other.weights]
    with pytest.raises(RunError, match=f"belongs to another model: .*{message}"):
        restore_checkpoint(checkpoint, other)
    for old, new in zip(before, other.weights, strict=True):
        np.testing.assert_array_equal(old, np.asarray(new))


def test_refuses_a_damaged_file(tmp_path: Path) -> None:
    model = build()
    checkpoint = save_checkpoint(tmp_path, model, Progress(1, 1, {}))
    content = bytearray(checkpoint.path.read_bytes())
    content[content.index(np.asarray(model.layers[0].kernel).tobytes()) + 7] ^= 1
    for damaged in (bytes(content), bytes(content[: len(content) // 2]), b""):
        checkpoint.path.write_bytes(damaged)
        with pytest.raises(RunError, match="is damaged"):
            restore_checkpoint(checkpoint, build())


def test_refuses_a_newer_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "FORMAT", 2)
    checkpoint = save_checkpoint(tmp_path, build(), Progress(1, 1, {}))
    monkeypatch.undo()
    with pytest.raises(RunError, match="has format 2, but this tfdp reads format 1"):
        restore_checkpoint(checkpoint, build())


def test_a_full_disk_keeps_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build()
    save_checkpoint(tmp_path, model, Progress(1, 1, {}))
    written = []

    def fill(archive: zipfile.ZipFile, name: str, value: np.ndarray) -> None:
        written.append(name)
        if len(written) == 4:
            raise OSError(28, "No space left on device")
        archive.writestr(name, value.tobytes())

    monkeypatch.setattr(checkpoints, "_write_array", fill)
    with pytest.raises(RunError, match=r"epoch-000002\.npz: cannot be written: No space left"):
        save_checkpoint(tmp_path, model, Progress(2, 2, {}))
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["epoch-000001.npz"]
    restore_checkpoint(list_checkpoints(tmp_path)[-1], model)
