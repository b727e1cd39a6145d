"""What Keras' callbacks remember is read, and given to others of their kind."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from tfdp.errors import ConfigError
from tfdp.training.callback_state import (
    assign_callbacks,
    put_arrays_in,
    read_callbacks,
    take_arrays_out,
)

X, Y = np.ones((4, 2), "float32"), np.arange(4.0)


class Counts(keras.callbacks.Callback):
    """One of a user's own, which takes part."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs = 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epochs += 1

    def state_dict(self) -> dict[str, int]:
        return {"epochs": self.epochs}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epochs = state["epochs"]


def callbacks(folder: Any) -> list[keras.callbacks.Callback]:
    return [
        keras.callbacks.EarlyStopping("loss", patience=9, restore_best_weights=True),
        keras.callbacks.ReduceLROnPlateau("loss", patience=9),
        keras.callbacks.ModelCheckpoint(f"{folder}/m.keras", "loss", save_best_only=True),
        keras.callbacks.TensorBoard(folder),
        Counts(),
        Counts(),
        keras.callbacks.LambdaCallback(),
    ]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[keras.callbacks.Callback]:
    found = callbacks(tmp_path_factory.mktemp("trained"))
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    history = model.fit(X, Y, epochs=3, verbose=0, callbacks=found)
    return [*found, history]


def test_all_that_stock_callbacks_remember_is_there(
    trained: list[keras.callbacks.Callback],
) -> None:
    """An attribute that Keras renames would be left out in silence."""
    states = read_callbacks(trained)
    kinds = {name.split("/")[0].rsplit(".", 1)[1]: set(state) for name, state in states.items()}
    assert kinds == {
        "EarlyStopping": {"wait", "stopped_epoch", "best", "best_weights", "best_epoch"},
        "ReduceLROnPlateau": {"wait", "cooldown_counter", "best"},
        "ModelCheckpoint": {
            "best",
            "_current_epoch",
            "_batches_seen_since_last_saving",
            "_last_batch_seen",
        },
        "TensorBoard": {"_global_train_batch", "_global_test_batch"},
        "Counts": {"epochs"},
        "History": {"epoch", "history"},
    }


def test_others_of_the_kind_go_on_with_it(
    trained: list[keras.callbacks.Callback], tmp_path: Any
) -> None:
    trained[5].epochs = 7  # type: ignore[attr-defined]
    arrays: list[np.ndarray] = []
    states = put_arrays_in(take_arrays_out(read_callbacks(trained), arrays), arrays)
    others = [*callbacks(tmp_path), keras.callbacks.History()]
    assign_callbacks(others, states)
    early, reduce = others[:2]
    assert early.best == trained[0].best  # type: ignore[attr-defined]
    for mine, theirs in zip(early.best_weights, trained[0].best_weights, strict=True):  # type: ignore[attr-defined]
        np.testing.assert_array_equal(mine, theirs)
    assert reduce.wait == trained[1].wait  # type: ignore[attr-defined]
    assert [each.epochs for each in others[4:6]] == [3, 7]  # type: ignore[attr-defined]
    assert others[-1].history == trained[-1].history  # type: ignore[attr-defined]


class Holds(Counts):
    def __init__(self, held: Any) -> None:
        super().__init__()
        self.held = held

    def state_dict(self) -> dict[str, Any]:
        return {"held": self.held}


def test_what_is_changed_later_is_not_in_the_state() -> None:
    """A checkpoint is written while the next steps run."""
    held = {"list": [1, (2, 3)], "array": np.zeros(2)}
    history = keras.callbacks.History()
    history.epoch, history.history = [0], {"loss": [1.0]}
    states = read_callbacks([Holds(held), history])
    held["list"].append(4)  # type: ignore[attr-defined]
    held["array"] += 1
    history.history["loss"].append(0.5)
    history.epoch.append(1)
    mine, theirs = states.values()
    assert mine["held"]["list"] == [1, [2, 3]]
    np.testing.assert_array_equal(mine["held"]["array"], [0, 0])
    assert theirs == {"epoch": [0], "history": {"loss": [1.0]}}


@pytest.mark.parametrize(
    ("held", "why"),
    [
        ({1, 2}, r"Holds\.state_dict\(\) has a set, which a checkpoint cannot hold"),
        ([{"a": b"x"}], r"Holds\.state_dict\(\) has a bytes"),
        ({1: 2}, r"Holds\.state_dict\(\) has the key 1; keys must be strings"),
        (np.array([None]), r"Holds\.state_dict\(\) has a ndarray"),
    ],
    ids=repr,
)
def test_what_cannot_be_held_is_named(held: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_callbacks([Holds(held)])
