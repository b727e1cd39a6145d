"""Checkpoints hold everything that the next step depends on, and say when they are damaged."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tfdp.errors import RunError
from tfdp.training import checkpoint_file
from tfdp.training.checkpoint_file import DamagedCheckpointError
from tfdp.training.checkpoints import CheckpointStore, Snapshot, load
from tfdp.training.progress import Progress
from tfdp.training.variables import StateArray, StateReader, assign_state

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
    model.optimizer.build(model.trainable_variables)
    return model


def steps(model: keras.Model, count: int) -> list[float]:
    return [float(model.train_on_batch(X, Y)) for _ in range(count)]


def save(
    folder: Path, model: keras.Model, progress: Progress, callbacks: Any = None, **options: Any
) -> Path:
    snapshot = Snapshot(
        progress, StateReader(model).read(), callbacks or {}, options.pop("loss", None)
    )
    return CheckpointStore(folder, **options).save(snapshot).path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_training_goes_on_to_the_bit(tmp_path: Path) -> None:
    keras.utils.set_random_seed(1)
    one = build()
    steps(one, 3)
    progress = Progress(3, 7, 30, {"loss": [3.0, 2.0, 1.0]}, frozenset({(1, 4), (0, 2)}))
    path = save(tmp_path, one, progress)
    expected = steps(one, 3)

    keras.utils.set_random_seed(2)
    other = build()
    snapshot = load(path)
    assert snapshot.progress == progress
    assign_state(other, snapshot.variables, str(path))
    assert steps(other, 3) == expected
    for mine, theirs in zip(other.variables, one.variables, strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_every_float_type_survives(tmp_path: Path, dtype: str) -> None:
    def model() -> keras.Model:
        made = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, dtype=dtype)])
        made.compile("sgd", "mse")
        made.optimizer.build(made.trainable_variables)
        return made

    one, other = model(), model()
    assign_state(other, load(save(tmp_path, one, Progress())).variables, "there")
    for mine, theirs in zip(other.weights, one.weights, strict=True):
        assert mine.dtype == dtype
        assert (keras.ops.convert_to_numpy(mine) == keras.ops.convert_to_numpy(theirs)).all()


def test_the_latest_are_kept_and_listed_in_order(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    assert CheckpointStore(tmp_path / "absent").list() == []
    assert store.load_latest() is None
    (tmp_path / "notes.txt").write_text("mine")
    for total in (2, 10, 1):
        save(tmp_path, build(), Progress(0, total, total), keep=3)
    assert [one.total_steps for one in store.list()] == [1, 2, 10]
    save(tmp_path, build(), Progress(0, 11, 11), keep=2)
    assert names(tmp_path) == ["notes.txt", "step-00000010.npz", "step-00000011.npz"]


@pytest.mark.parametrize(
    ("larger", "expected"),
    [
        (False, ["best-00000002.npz", "best-00000003.npz"]),
        (True, ["best-00000001.npz", "best-00000004.npz"]),
    ],
)
def test_the_best_are_kept_beside_the_latest(
    tmp_path: Path, larger: bool, expected: list[str]
) -> None:
    model = build()
    for total, loss in enumerate([0.9, 0.3, 0.4, 0.8], start=1):
        options = {"keep": 1, "keep_best": 2, "larger_is_better": larger, "loss": loss}
        save(tmp_path, model, Progress(0, total, total), **options)
    assert names(tmp_path) == [*expected, "step-00000004.npz"]
    save(tmp_path, model, Progress(0, 5, 5), keep=1, keep_best=2, larger_is_better=larger)
    assert names(tmp_path) == [*expected, "step-00000005.npz"]


def test_a_best_one_is_copied_where_there_are_no_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Any, target: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    path = save(tmp_path, build(), Progress(0, 1, 1), keep_best=1, loss=1.0)
    assert (tmp_path / "best-00000001.npz").read_bytes() == path.read_bytes()


def test_plain_numpy_reads_it(tmp_path: Path) -> None:
    model = build()
    path = save(tmp_path, model, Progress())
    with zipfile.ZipFile(path) as archive:
        described = json.loads(archive.read("state.json"))["variables"]
    number = next(n for n, v in enumerate(described) if v["name"].endswith("/kernel"))
    with np.load(path, allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays[f"{number:05d}"], np.asarray(model.layers[0].kernel))


@pytest.mark.parametrize(
    ("units", "optimizer", "message"),
    [(5, "adam", "has shape .* there and"), (6, "sgd", "variables, the model and optimizer")],
)
def test_refuses_another_model(tmp_path: Path, units: int, optimizer: str, message: str) -> None:
    path = save(tmp_path, build(), Progress())
    other = build(units, optimizer)
    before = [np.asarray(weight).copy() for weight in other.weights]
    with pytest.raises(RunError, match=f"belongs to another model: .*{message}"):
        assign_state(other, load(path).variables, str(path))
    for old, new in zip(before, other.weights, strict=True):
        np.testing.assert_array_equal(old, np.asarray(new))


def damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "a flipped bit":
        content[len(content) // 3] ^= 1
    elif how == "cut short":
        del content[len(content) // 2 :]
    elif how == "empty":
        content.clear()
    else:
        content[:] = b"no archive at all"
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("how", ["a flipped bit", "cut short", "empty", "something else"])
def test_a_damaged_one_is_passed_over_for_the_one_before(tmp_path: Path, how: str) -> None:
    model = build()
    save(tmp_path, model, Progress(0, 1, 1))
    damage(save(tmp_path, model, Progress(0, 2, 2)), how)
    said: list[str] = []
    found = CheckpointStore(tmp_path).load_latest(said.append)
    assert found is not None
    assert found[0].progress.total_steps == 1
    assert len(said) == 1
    assert "step-00000002.npz: the checkpoint is damaged" in said[0]
    damage(tmp_path / "step-00000001.npz", how)
    with pytest.raises(RunError, match="none of the 2 checkpoints can be read"):
        CheckpointStore(tmp_path).load_latest(said.append)


def test_an_array_that_was_exchanged_is_damage(tmp_path: Path) -> None:
    """A whole archive, whose own checks are right, with another array than was written."""
    path = save(tmp_path, build(), Progress())
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    changed = bytearray(members["00000.npy"])
    changed[-1] ^= 1
    members["00000.npy"] = bytes(changed)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(DamagedCheckpointError, match="array 0 is not what was written"):
        load(path)


@pytest.mark.parametrize(("number", "word"), [(99, "newer"), (1, "older")])
def test_refuses_another_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, word: str
) -> None:
    monkeypatch.setattr(checkpoint_file, "FORMAT", number)
    path = save(tmp_path, build(), Progress())
    monkeypatch.undo()
    with pytest.raises(RunError, match=f"has format {number}, but this tfdp reads") as caught:
        load(path)
    assert f"by an {word} tfdp" in str(caught.value) or f"by a {word} tfdp" in str(caught.value)
    assert not isinstance(caught.value, DamagedCheckpointError)


def test_a_full_disk_keeps_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build()
    save(tmp_path, model, Progress(0, 1, 1))
    written = []

    def fill(archive: zipfile.ZipFile, name: str, value: np.ndarray) -> None:
        written.append(name)
        if len(written) == 4:
            raise OSError(28, "No space left on device")
        archive.writestr(name, value.tobytes())

    monkeypatch.setattr(checkpoint_file, "_write_array", fill)
    with pytest.raises(RunError, match=r"step-00000002\.npz: cannot be written: No space left"):
        save(tmp_path, model, Progress(0, 2, 2))
    monkeypatch.undo()
    assert names(tmp_path) == ["step-00000001.npz"]
    found = CheckpointStore(tmp_path).load_latest()
    assert found is not None
    assign_state(model, found[0].variables, "there")


def test_what_callbacks_remember_comes_back(tmp_path: Path) -> None:
    arrays = [np.arange(3.0), np.float32(2.5) * np.ones((2, 2), "float32")]
    state = {"early": {"best": 0.5, "wait": 2, "best_weights": arrays, "none": None}}
    found = load(save(tmp_path, build(), Progress(), state)).callbacks["early"]
    assert (found["best"], found["wait"], found["none"]) == (0.5, 2, None)
    for mine, theirs in zip(found["best_weights"], arrays, strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    ("parts", "two", "one"),
    [("sum", [15, 0], 15), ("mean", [5, 5], 5), ("first", [4, 4], 4)],
)
def test_parts_go_to_as_many_replicas_or_come_to_something(
    parts: str, two: list[int], one: int
) -> None:
    array = StateArray("a counter", np.array([4, 5, 6]), parts)
    assert list(array.for_replicas(3)) == [4, 5, 6]
    assert list(array.for_replicas(2)) == two
    assert array.total() == one
    assert array.shape == ()
