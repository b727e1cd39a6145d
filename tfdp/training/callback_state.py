"""What Keras' callbacks remember from epoch to epoch, as JSON and arrays.

Keras starts its callbacks anew in every `fit`: a resumed `EarlyStopping` would have forgotten the
best value and how long it has waited. A callback of the user's own takes part by two methods:
`state_dict()`, which returns what JSON (or NumPy) can hold, and `load_state_dict(state)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np

from tfdp.errors import ConfigError

_REMEMBERED: dict[type, tuple[str, ...]] = {
    keras.callbacks.EarlyStopping: (
        "wait",
        "stopped_epoch",
        "best",
        "best_weights",
        "best_epoch",
    ),
    keras.callbacks.ReduceLROnPlateau: ("wait", "cooldown_counter", "best"),
    keras.callbacks.ModelCheckpoint: (
        "best",
        "_current_epoch",
        "_batches_seen_since_last_saving",
        "_last_batch_seen",
    ),
    keras.callbacks.History: ("epoch", "history"),
    keras.callbacks.TensorBoard: ("_global_train_batch", "_global_test_batch"),
}
"""Attributes that change while training. What is compared with is set up again by itself."""

_ARRAY = "__array__"


def read_callbacks(callbacks: Iterable[keras.callbacks.Callback]) -> dict[str, Any]:
    """The state of each callback that has one, by class and number.

    It is copied, since it may be written while training goes on.

    Raises:
      ConfigError: a `state_dict` returns what no checkpoint can hold.
    """
    states = {}
    for name, callback in _named(callbacks):
        if hasattr(callback, "state_dict"):
            states[name] = _copied(callback.state_dict(), f"{name.rpartition('/')[0]}.state_dict()")
        else:
            states[name] = {
                key: _copied(getattr(callback, key), name, arrays=False)
                for key in _keys(callback)
                if hasattr(callback, key)
            }
    return {name: state for name, state in states.items() if state}


def assign_callbacks(
    callbacks: Iterable[keras.callbacks.Callback], states: Mapping[str, Any]
) -> None:
    """Gives callbacks the state that those of the same class and number had."""
    for name, callback in _named(callbacks):
        if name not in states:
            continue
        if hasattr(callback, "load_state_dict"):
            callback.load_state_dict(states[name])
            continue
        for key in _keys(callback):
            if key in states[name]:
                setattr(callback, key, states[name][key])


def take_arrays_out(state: Any, arrays: list[np.ndarray]) -> Any:
    """`state` for JSON; its arrays are appended to `arrays`, and stand for themselves by number."""
    if isinstance(state, Mapping):
        return {str(key): take_arrays_out(value, arrays) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return [take_arrays_out(value, arrays) for value in state]
    if isinstance(state, np.generic):
        return state.item()
    if isinstance(state, np.ndarray):
        arrays.append(state)
        return {_ARRAY: len(arrays) - 1}
    return state


def put_arrays_in(state: Any, arrays: list[np.ndarray]) -> Any:
    """The reverse of `take_arrays_out`; tuples have become lists."""
    if isinstance(state, Mapping):
        if set(state) == {_ARRAY}:
            return arrays[state[_ARRAY]]
        return {key: put_arrays_in(value, arrays) for key, value in state.items()}
    if isinstance(state, list):
        return [put_arrays_in(value, arrays) for value in state]
    return state


def _copied(state: Any, place: str, *, arrays: bool = True) -> Any:
    """A copy down to the arrays, and of those too unless nobody changes them in place."""
    if isinstance(state, Mapping):
        for key in state:
            if not isinstance(key, str):
                raise ConfigError(f"{place} has the key {key!r}; keys must be strings.")
        return {key: _copied(value, place, arrays=arrays) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return [_copied(value, place, arrays=arrays) for value in state]
    if isinstance(state, np.ndarray) and not state.dtype.hasobject:
        return state.copy() if arrays else state
    if state is None or isinstance(state, (str, bool, int, float, np.generic)):
        return state
    raise ConfigError(
        f"{place} has a {type(state).__name__}, which a checkpoint cannot hold.",
        hint="Strings, numbers, None, NumPy arrays, and lists and dicts of these can be held.",
    )


def _named(
    callbacks: Iterable[keras.callbacks.Callback],
) -> Iterable[tuple[str, keras.callbacks.Callback]]:
    seen: dict[str, int] = {}
    for callback in callbacks:
        name = f"{type(callback).__module__}.{type(callback).__qualname__}"
        seen[name] = seen.get(name, -1) + 1
        yield f"{name}/{seen[name]}", callback


def _keys(callback: keras.callbacks.Callback) -> tuple[str, ...]:
    for kind, keys in _REMEMBERED.items():
        if isinstance(callback, kind):
            return keys
    return ()
