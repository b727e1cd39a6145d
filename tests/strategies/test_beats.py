"""What `fit` tells a launcher, and that it tells nobody else."""

from __future__ import annotations

import itertools
from pathlib import Path

import keras
import numpy as np
import pytest

import tfdp
from tfdp.cluster import heartbeat
from tfdp.cluster.heartbeat import Activity, Heartbeat

X = np.linspace(0, 1, 16, dtype=np.float32).reshape(8, 2)
Y = X.sum(axis=1, keepdims=True)


class Recorder(Heartbeat):
    """Notes what it is told."""

    path = Path("record")

    def __init__(self) -> None:
        self.told: list[Activity] = []
        self.steps: list[int] = []
        self.epochs: list[tuple[int, int | None]] = []

    def enter(self, activity: Activity, *, step: int | None = None) -> None:
        self.told.append(activity)

    def begin_epoch(self, epoch: int, step: int | None = None) -> None:
        self.epochs.append((epoch, step))
        self.enter(Activity.EPOCH_CALLBACK)

    def finish_step(self, activity: Activity) -> None:
        self.enter(activity)

    @property
    def activity(self) -> Activity:
        return self.told[-1] if self.told else Activity.STARTING

    def names(self) -> list[str]:
        """In order, without repetitions."""
        return [activity.name for activity, _ in itertools.groupby(self.told)]


@pytest.fixture(name="recorder")
def _recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(heartbeat, "_current", recorder)
    return recorder


def fitted(kind: str) -> keras.Model:
    strategy = tfdp.strategy(kind, devices=2 if kind == "mirrored" else 1)
    with strategy.scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(X, Y, batch_size=4, epochs=2, verbose=0, shuffle=False, validation_data=(X, Y))
    return model


EPOCH = [
    *("EPOCH_CALLBACK", "BETWEEN"),
    *("READING", "STEP", "BATCH_CALLBACK", "BETWEEN"),
    *("READING", "STEP", "BATCH_CALLBACK", "BETWEEN"),
    *("VALIDATING", "BETWEEN"),
    *("EPOCH_CALLBACK", "BETWEEN"),
]


def test_on_several_replicas(recorder: Recorder) -> None:
    fitted("mirrored")
    names = recorder.names()
    built = names.index("BUILDING")
    assert names[built - 1 : built + 2] == ["STEP", "BUILDING", "BATCH_CALLBACK"]
    # The function that validates is built while it validates.
    assert names.count("BUILDING") == 2
    plain = [name for name in names if name != "BUILDING"]
    assert [name for name, _ in itertools.groupby(plain)] == [
        *EPOCH,
        *EPOCH,
        *("EPOCH_CALLBACK", "FINISHED"),
    ]
    assert recorder.epochs == [(0, 0), (1, 2)]


def test_on_one_replica_where_keras_reads_inside_the_step(recorder: Recorder) -> None:
    fitted("single")
    names = recorder.names()
    assert "READING" not in names
    assert names[:7] == [
        *("EPOCH_CALLBACK", "BETWEEN"),
        *("BUILDING", "BATCH_CALLBACK", "BETWEEN"),
        *("STEP", "BATCH_CALLBACK"),
    ]
    end_of_first = names.index("EPOCH_CALLBACK", 2)
    assert names[end_of_first + 2 :] == [
        *(name for name in EPOCH if name != "READING"),
        *("EPOCH_CALLBACK", "FINISHED"),
    ]
    assert recorder.epochs == [(0, 0), (1, 2)]


def test_one_step_at_a_time(recorder: Recorder) -> None:
    model = fitted("mirrored")
    del recorder.told[:]
    model.train_on_batch(X, Y)
    assert recorder.names()[0] == "READING"
    assert recorder.names()[-1] == "BATCH_CALLBACK"
    model.evaluate(X, Y, batch_size=4, verbose=0)
    assert set(recorder.names()[recorder.names().index("BATCH_CALLBACK") + 1 :]) <= {
        "VALIDATING",
        "BUILDING",
        "BATCH_CALLBACK",
    }
    assert recorder.activity is Activity.BATCH_CALLBACK


def test_without_a_launcher_keras_has_its_own_function() -> None:
    assert heartbeat.current().path is None
    model = fitted("single")
    assert model.train_function.__module__.startswith("keras.")
