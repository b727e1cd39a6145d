"""Checkpoints: everything that the next epoch depends on, in one file for each epoch.

A checkpoint is an uncompressed ``.npz`` that holds every variable of the model (weights,
statistics, the seeds of random layers) and of the optimizer (step number, learning rate,
accumulators), bit for bit, and a JSON text with the epoch. Keras' own weight files leave the seeds
of random layers out, so a run resumed from one would draw other dropout masks.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfdp.errors import RunError
from tfdp.training.files import disk_errors, replacing

FORMAT = 1

_NAME = re.compile(r"epoch-(\d+)\.npz")
_STATE = "state.json"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk.

    Attributes:
      path: the file.
      epochs: epochs that were finished when it was written.
    """

    path: Path
    epochs: int


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes:
      epochs: epochs finished.
      steps: steps finished, over all epochs.
      history: value of every metric after each epoch.
    """

    epochs: int
    steps: int
    history: Mapping[str, list[float]]


def save_checkpoint(
    directory: Path, model: keras.Model, progress: Progress, *, write: bool = True
) -> Checkpoint:
    """Writes a checkpoint.

    Args:
      directory: where to.
      model: compiled, with an optimizer that is built.
      progress: what to store beside the variables.
      write: False reads the variables and writes nothing. Reading one that is spread over the
        workers is a step that all workers must take part in.

    Raises:
      RunError: the disk is full or fails; earlier checkpoints stay.
    """
    path = directory / f"epoch-{progress.epochs:06d}.npz"
    values = ((name, _read(variable)) for name, variable in _variables(model))
    if not write:
        for _ in values:
            pass
        return Checkpoint(path, progress.epochs)
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        names = {}
        for index, (name, value) in enumerate(values):
            names[f"{index:05d}"] = {"name": name, "dtype": value.dtype.name}
            _write_array(archive, f"{index:05d}.npy", value)
        state = {
            "format": FORMAT,
            "epochs": progress.epochs,
            "steps": progress.steps,
            "history": progress.history,
            "variables": names,
        }
        archive.writestr(_STATE, json.dumps(state, indent=1))
    return Checkpoint(path, progress.epochs)


def list_checkpoints(directory: Path) -> list[Checkpoint]:
    """The checkpoints in `directory`, the earliest first; none where there is no directory."""
    if not directory.is_dir():
        return []
    found = [(path, _NAME.fullmatch(path.name)) for path in directory.iterdir()]
    checkpoints = [Checkpoint(path, int(match[1])) for path, match in found if match]
    return sorted(checkpoints, key=lambda checkpoint: checkpoint.epochs)


def restore_checkpoint(checkpoint: Checkpoint, model: keras.Model) -> Progress:
    """Gives every variable of `model` and its optimizer the value in `checkpoint`.

    Args:
      checkpoint: see `list_checkpoints`.
      model: compiled; the same architecture and optimizer as the one that was saved, on any number
        of replicas. An optimizer that is not built yet is built.

    Raises:
      RunError: the file is damaged, of a newer format, or belongs to another model; `model` is
        unchanged then.
    """
    variables = list(_variables(model))
    try:
        with zipfile.ZipFile(checkpoint.path) as archive:
            state = json.loads(archive.read(_STATE))
            _check_state(state, variables, checkpoint.path)
            values = [
                _read_array(archive, f"{key}.npy", entry["dtype"])
                for key, entry in state["variables"].items()
            ]
    except (OSError, zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
        raise RunError(
            f"{checkpoint.path}: the checkpoint is damaged: {error}.",
            hint="Remove it to resume from the one before.",
        ) from error
    for (name, variable), value in zip(variables, values, strict=True):
        if tuple(variable.shape) != value.shape:
            raise RunError(
                f"{checkpoint.path}: belongs to another model: {name} has shape {value.shape} "
                f"there and {tuple(variable.shape)} here."
            )
    for (_, variable), value in zip(variables, values, strict=True):
        variable.assign(value)
    return Progress(state["epochs"], state["steps"], state["history"])


def prune_checkpoints(directory: Path, keep: int) -> None:
    """Removes all but the latest `keep` checkpoints.

    Raises:
      RunError: a file cannot be removed.
    """
    for checkpoint in list_checkpoints(directory)[:-keep]:
        with disk_errors(checkpoint.path):
            checkpoint.path.unlink(missing_ok=True)


def _variables(model: keras.Model) -> Iterator[tuple[str, keras.Variable]]:
    """All state of the model and its optimizer, each variable once, in an order that is fixed."""
    optimizer = model.optimizer
    if not optimizer.built:
        optimizer.build(model.trainable_variables)
    seen = set()
    for part, variables in (("model", model.variables), ("optimizer", optimizer.variables)):
        for variable in variables:
            if id(variable) not in seen:
                seen.add(id(variable))
                yield f"{part}/{variable.path}", variable


def _check_state(state: Any, variables: list[tuple[str, keras.Variable]], path: Path) -> None:
    if state["format"] > FORMAT:
        raise RunError(
            f"{path}: has format {state['format']}, but this tfdp reads format {FORMAT}.",
            hint="It was written by a newer tfdp: update tfdp.",
        )
    if len(state["variables"]) != len(variables):
        raise RunError(
            f"{path}: belongs to another model: it has {len(state['variables'])} variables, "
            f"the model and optimizer here have {len(variables)}."
        )


def _read(variable: keras.Variable) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(variable))


def _write_array(archive: zipfile.ZipFile, name: str, value: np.ndarray) -> None:
    # .npy has no name for bfloat16: its bits are stored, and the state says what they are.
    stored = value.view(f"u{value.itemsize}") if value.dtype.kind == "V" else value
    with archive.open(name, "w", force_zip64=True) as file:
        np.lib.format.write_array(file, stored, allow_pickle=False)


def _read_array(archive: zipfile.ZipFile, name: str, dtype: str) -> np.ndarray:
    content = io.BytesIO(archive.read(name))
    value = np.lib.format.read_array(content, allow_pickle=False)
    return value if value.dtype.name == dtype else value.view(_extended_dtype(dtype))


def _extended_dtype(name: str) -> np.dtype:
    import ml_dtypes  # TensorFlow depends on it, and imports it

    return np.dtype(getattr(ml_dtypes, name))
