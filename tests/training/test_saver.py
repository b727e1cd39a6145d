"""A run that ends at any step and is started again trains what an uninterrupted one trains."""

from __future__ import annotations

import dataclasses
import functools
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdp
from tfdp.errors import ConfigError, DataError, PreemptedError, RunError
from tfdp.training.checkpoints import CheckpointStore
from tfdp.training.saver import Checkpoints, larger_is_better

ROWS, BATCH, EPOCHS = 50, 8, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 6)).astype("float32")
Y = (X.sum(axis=1) > 0).astype("int32")


class Shuffled(keras.utils.PyDataset):
    """Shuffles its rows by NumPy when an epoch ends, as many do."""

    def __init__(self) -> None:
        super().__init__()
        self._order = np.arange(ROWS)

    def __len__(self) -> int:
        return -(-ROWS // BATCH)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        rows = self._order[index * BATCH : (index + 1) * BATCH]
        return X[rows], Y[rows]

    def on_epoch_end(self) -> None:
        np.random.shuffle(self._order)


def slices() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(ROWS)


FEEDS: dict[str, Callable[[], dict[str, Any]]] = {
    "arrays": lambda: {"x": X, "y": Y, "batch_size": BATCH},
    "dataset": lambda: {"x": slices().batch(BATCH)},
    "dataset of unknown length": lambda: {"x": slices().filter(lambda x, y: True).batch(BATCH)},
    "endless": lambda: {"x": slices().repeat().batch(BATCH), "steps_per_epoch": 5},
    "epochs across passes": lambda: {"x": slices().batch(BATCH), "steps_per_epoch": 4},
    "PyDataset": lambda: {"x": Shuffled()},
}


@dataclasses.dataclass
class Result:
    history: dict[str, list[float]]
    state: list[np.ndarray]


def train(
    feed: str,
    replicas: int,
    folder: Path,
    *callbacks: keras.callbacks.Callback,
    accumulate: int | None = None,
    each_alike: bool = False,
    **options: Any,
) -> Result:
    """Trains from the start, or from the checkpoints in `folder`, as a program of its own would."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(7)
    strategy = tfdp.strategy("mirrored" if replicas > 1 else "single", devices=replicas)
    with strategy.scope():
        # Each replica has its own statistics and masks.
        own = [] if each_alike else [keras.layers.BatchNormalization(), keras.layers.Dropout(0.3)]
        model = keras.Sequential(
            [keras.Input((6,)), keras.layers.Dense(8), *own, keras.layers.Dense(2)]
        )
        model.compile(
            keras.optimizers.Adam(1e-2, gradient_accumulation_steps=accumulate),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    saver = Checkpoints(folder, **{"every_steps": 1, "keep": 99, "in_background": False} | options)
    history = model.fit(
        **FEEDS[feed](),
        epochs=EPOCHS,
        validation_data=(X, Y),
        verbose=0,
        callbacks=[
            saver,  # first in the list: it saves what those after it have done all the same
            keras.callbacks.ReduceLROnPlateau(patience=1, min_delta=0.05),
            keras.callbacks.EarlyStopping(patience=5, restore_best_weights=True),
            *callbacks,
        ],
    ).history
    variables = [*model.variables, *model.optimizer.variables]
    return Result(history, [keras.ops.convert_to_numpy(each) for each in variables])


def assert_same(mine: Result, theirs: Result) -> None:
    assert mine.history == theirs.history
    for one, other in zip(mine.state, theirs.state, strict=True):
        np.testing.assert_array_equal(one, other)


Whole = Callable[..., tuple[Result, Path]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Runs that nobody interrupts, each once, and the folder with a checkpoint of every step."""

    @functools.cache
    def run(feed: str, replicas: int, **options: Any) -> tuple[Result, Path]:
        folder = tmp_path_factory.mktemp("whole")
        return train(feed, replicas, folder, **options), folder

    return run


def killed_after(step: int, folder: Path, target: Path) -> Path:
    """What a run that was killed after a step has left behind."""
    target.mkdir()
    shutil.copy(folder / f"step-{step:08d}.npz", target)
    return target


@pytest.mark.slow
@pytest.mark.parametrize("feed", FEEDS)
def test_any_feed_goes_on_in_the_middle_of_an_epoch(
    tmp_path: Path, whole: Whole, feed: str
) -> None:
    expected, folder = whole(feed, 1)
    assert_same(train(feed, 1, killed_after(9, folder, tmp_path / "parts")), expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "accumulate"),
    [(3, None), (7, None), (14, None), (8, 3)],
    ids=["in an epoch", "before the epochs end", "before the last epoch", "while accumulating"],
)
def test_replicas_go_on_wherever_they_ended(
    tmp_path: Path, whole: Whole, step: int, accumulate: int | None
) -> None:
    expected, folder = whole("dataset", 3, accumulate=accumulate)
    parts = killed_after(step, folder, tmp_path / "parts")
    assert_same(train("dataset", 3, parts, accumulate=accumulate), expected)


def test_another_number_of_replicas_goes_on(tmp_path: Path, whole: Whole) -> None:
    """Within rounding: a sum over rows has other partial sums."""
    options: dict[str, Any] = {"accumulate": 2, "each_alike": True}
    expected, folder = whole("dataset", 3, **options)
    parts = train("dataset", 2, killed_after(9, folder, tmp_path / "parts"), **options)
    for name, values in expected.history.items():
        np.testing.assert_allclose(parts.history[name], values, rtol=2e-5)


class Signals(keras.callbacks.Callback):
    """Sends this process a signal in a step, or in the validation."""

    def __init__(self, number: signal.Signals, *, step: int = 0, validation: int = 0) -> None:
        super().__init__()
        self._number = number
        self._steps = step
        self._validations = validation

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._steps -= 1
        if self._steps == 0:
            os.kill(os.getpid(), self._number)

    def on_test_batch_begin(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._validations -= 1
        if self._validations == 0:
            os.kill(os.getpid(), self._number)


@pytest.mark.parametrize(
    ("sent", "saved"),
    [
        (Signals(signal.SIGTERM, step=5), "step-00000005.npz"),
        (Signals(signal.SIGINT, validation=3), "step-00000014.npz"),
    ],
    ids=["SIGTERM in a step", "SIGINT in a validation"],
)
def test_a_signal_saves_first(tmp_path: Path, whole: Whole, sent: Signals, saved: str) -> None:
    before = [signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)]
    expected, _ = whole("dataset", 3, accumulate=None)
    options: dict[str, Any] = {"every_steps": 0, "every_epochs": 5}
    with pytest.raises(PreemptedError, match=r"stopped after step \d+ \(epoch \d, step \d\)") as it:
        train("dataset", 3, tmp_path / "parts", sent, **options)
    assert it.value.code == 75
    assert [path.name for path in (tmp_path / "parts").iterdir()] == [saved]
    assert [signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)] == before
    assert_same(train("dataset", 3, tmp_path / "parts", **options), expected)


def test_a_run_that_stopped_early_stays_stopped(tmp_path: Path) -> None:
    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
            self.model.stop_training = epoch == 1

    first = train("dataset", 1, tmp_path, Stop())
    assert len(first.history["loss"]) == 2
    assert_same(train("dataset", 1, tmp_path, Stop()), first)


def test_the_best_by_accuracy_is_kept(tmp_path: Path) -> None:
    options: dict[str, Any] = {"every_steps": 0, "keep": 1, "keep_best": 1}
    result = train("dataset", 1, tmp_path, monitor="val_accuracy", **options)
    best = int(np.argmax(result.history["val_accuracy"]))
    store = CheckpointStore(tmp_path)
    assert [each.total_steps for each in store.list("best")] == [7 * (best + 1)]
    assert [each.total_steps for each in store.list()] == [21]


def test_a_failure_in_the_background_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(store: CheckpointStore, snapshot: Any) -> None:
        raise RunError("the disk has left")

    monkeypatch.setattr(CheckpointStore, "save", fail)
    with pytest.raises(RunError, match="the disk has left"):
        train("dataset", 1, tmp_path, in_background=True)


def small(optimizer: str = "adam", units: int = 2) -> keras.Model:
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(units)])
    model.compile(optimizer, "mse")
    return model


def fit_small(model: keras.Model, saver: Checkpoints, epochs: int, *more: Any) -> list[float]:
    """Two steps an epoch."""
    targets = X[:, : model.output_shape[1]]
    return list(
        model.fit(
            *(X, targets), batch_size=25, epochs=epochs, verbose=0, callbacks=[saver, *more]
        ).history["loss"]
    )


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"units": 3}, "another model: model/0/.* has shape"),
        ({"optimizer": "sgd"}, r"another model: it has \d variables"),
        ({"optimizer": "adadelta"}, "another optimizer: .*momentum there is .*_accumulated_grad"),
    ],
    ids=["another model", "with other variables", "with variables of the same shapes"],
)
def test_a_checkpoint_of_something_else_is_refused(
    tmp_path: Path, other: dict[str, Any], why: str
) -> None:
    fit_small(small(), Checkpoints(tmp_path), 1)
    model = small(**other)
    before = [np.array(each) for each in model.get_weights()]
    with pytest.raises(RunError, match=why):
        fit_small(model, Checkpoints(tmp_path), 2)
    for mine, theirs in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_second_fit_keeps_its_latest_checkpoints(tmp_path: Path) -> None:
    model, saver = small(), Checkpoints(tmp_path, every_steps=1, keep=2)
    fit_small(model, saver, 3)
    fit_small(model, saver, 1)
    assert [each.total_steps for each in CheckpointStore(tmp_path).list()] == [7, 8]
    found = CheckpointStore(tmp_path).load_latest()
    assert found is not None
    assert (found[0].progress.epochs, int(model.optimizer.iterations)) == (1, 8)


def test_a_new_run_does_not_remove_what_another_has_saved(tmp_path: Path) -> None:
    fit_small(small(), Checkpoints(tmp_path), 2)
    with pytest.raises(RunError, match=r"the checkpoints of another run \(after 4 steps\)"):
        fit_small(small(), Checkpoints(tmp_path, resume=False), 1)
    assert [each.total_steps for each in CheckpointStore(tmp_path).list()] == [2, 4]


def test_the_same_object_goes_on_after_a_signal(tmp_path: Path) -> None:
    """As where a notebook's cell is run again after it was interrupted."""
    expected = fit_small(small(), Checkpoints(tmp_path / "whole"), 3)
    model, saver = small(), Checkpoints(tmp_path / "parts")
    with pytest.raises(PreemptedError):
        fit_small(model, saver, 3, Signals(signal.SIGINT, step=3))
    assert int(model.optimizer.iterations) == 3
    assert fit_small(model, saver, 3) == expected
    assert int(model.optimizer.iterations) == 6


def test_plain_fit_is_left_as_it_was(tmp_path: Path) -> None:
    """The model that has gone on from a checkpoint begins its next fit at the beginning."""
    train("dataset", 1, tmp_path)
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    other = tmp_path / "other"
    model.fit(X, X[:, :2], epochs=2, verbose=0, callbacks=[Checkpoints(other)])
    assert len(model.fit(X, X[:, :2], epochs=1, verbose=0).history["loss"]) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"keep": 0},
        {"keep_best": -1},
        {"every_epochs": -1},
        {"every_minutes": float("nan")},
        {"mode": "most"},
    ],
    ids=str,
)
def test_refuses_numbers_out_of_range(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        Checkpoints(tmp_path, **options)


@pytest.mark.parametrize(
    ("monitor", "mode", "larger"),
    [
        ("val_loss", "auto", False),
        ("val_accuracy", "auto", True),
        ("auc", "auto", True),
        ("val_loss", "max", True),
        ("accuracy", "min", False),
    ],
)
def test_which_is_better(monitor: str, mode: str, larger: bool) -> None:
    assert larger_is_better(monitor, mode) is larger


def test_data_that_end_too_early_are_said(tmp_path: Path, whole: Whole) -> None:
    """Nobody can tell in which pass over it a data set of unknown length was."""
    _, folder = whole("endless", 1)
    parts = killed_after(9, folder, tmp_path / "parts")
    FEEDS["short"] = lambda: {
        "x": slices().filter(lambda x, y: True).batch(BATCH),
        "steps_per_epoch": 5,
    }
    with pytest.raises(DataError, match="the data end after 7 batches, and the run stood after 9"):
        train("short", 1, parts)
    del FEEDS["short"]


def test_what_is_written_beside_the_training_does_not_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots: list[Any] = []
    monkeypatch.setattr(CheckpointStore, "save", lambda store, snapshot: snapshots.append(snapshot))
    train("dataset", 1, tmp_path, in_background=True)
    counts = [len(each.progress.history.get("loss", [])) for each in snapshots]
    assert counts == [each.progress.epochs for each in snapshots]
    assert set(counts) == {0, 1, 2, 3}
