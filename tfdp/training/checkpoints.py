"""The checkpoints of a run: everything that its next step depends on.

``checkpoints/step-00000120.npz`` is the state after 120 steps. It holds every variable of the model
(weights, statistics, the seeds of random layers) and of the optimizer (step number, learning rate,
accumulators), what the metrics have added up in the running epoch, what the callbacks remember, and
the place in the data. Keras' own weight files leave the seeds of random layers out, and
`BackupAndRestore` the place in the data and the callbacks, so a run resumed from one would train
something else.

The latest `keep` are kept, and as ``best-....npz`` the `keep_best` best.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tfdp.errors import RunError
from tfdp.training import checkpoint_file
from tfdp.training.callback_state import put_arrays_in, take_arrays_out
from tfdp.training.checkpoint_file import DamagedCheckpointError
from tfdp.training.files import disk_errors, replacing
from tfdp.training.progress import Progress
from tfdp.training.variables import StateArray

_NAME = re.compile(r"(step|best)-(\d+)\.npz")

_log = logging.getLogger("tfdp.training")


@dataclass(frozen=True)
class Snapshot:
    """The state of a run, in memory.

    Attributes:
      progress: how far it has come.
      variables: see `tfdp.training.variables.StateReader`.
      callbacks: see `tfdp.training.callback_state.read_callbacks`.
      monitored: value of the metric that tells which checkpoint is best; None where there is none.
      logs: what the last step has logged.
    """

    progress: Progress
    variables: Sequence[StateArray]
    callbacks: Mapping[str, Any] = field(default_factory=dict)
    monitored: float | None = None
    logs: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk.

    Attributes:
      path: the file.
      total_steps: steps that were finished when it was written.
    """

    path: Path
    total_steps: int


class CheckpointStore:
    """The directory of a run's checkpoints.

    Args:
      directory: where they are; made when the first one is written.
      keep: how many of the latest are kept.
      keep_best: how many of the best are kept beside them.
      larger_is_better: how monitored values compare.
    """

    def __init__(
        self,
        directory: Path,
        *,
        keep: int = 3,
        keep_best: int = 0,
        larger_is_better: bool = False,
    ) -> None:
        self.directory = directory
        self._keep = keep
        self._keep_best = keep_best
        self._larger_is_better = larger_is_better

    def list(self, kind: str = "step") -> list[Checkpoint]:
        """The checkpoints, the earliest first: the latest ones ("step"), or the "best"."""
        if not self.directory.is_dir():
            return []
        found = [(path, _NAME.fullmatch(path.name)) for path in self.directory.iterdir()]
        checkpoints = [
            Checkpoint(path, int(match[2])) for path, match in found if match and match[1] == kind
        ]
        return sorted(checkpoints, key=lambda checkpoint: checkpoint.total_steps)

    def save(self, snapshot: Snapshot) -> Checkpoint:
        """Writes a checkpoint, and removes those that are no longer kept.

        Raises:
          RunError: the disk is full or fails; earlier checkpoints stay.
        """
        with disk_errors(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"step-{snapshot.progress.total_steps:08d}.npz"
        _write(path, snapshot)
        if self._keep_best and snapshot.monitored is not None:
            self._keep_as_best(path, snapshot.progress.total_steps)
        for old in self.list()[: -self._keep]:
            _remove(old.path)
        return Checkpoint(path, snapshot.progress.total_steps)

    def load_latest(
        self, on_damaged: Callable[[str], None] | None = None, before_step: int | None = None
    ) -> tuple[Snapshot, Path] | None:
        """The latest state that is whole, and its file; None where there is no checkpoint.

        Args:
          on_damaged: is told of each file that is passed over; None: it is logged.
          before_step: only states in which this step, from 1, was not yet taken; None: all.

        Raises:
          RunError: checkpoints are there, and all of them are damaged; or another version of tfdp
            has written them.
        """
        # The best of a run may be older than the latest, and outlive them.
        candidates = [
            each
            for each in (*self.list("best"), *self.list())
            if before_step is None or each.total_steps < before_step
        ]
        candidates.sort(key=lambda each: (each.total_steps, each.path.name))
        for checkpoint in reversed(candidates):
            try:
                return load(checkpoint.path), checkpoint.path
            except DamagedCheckpointError as error:
                text = f"{error.message} Going on with the one before."
                (on_damaged or _log.warning)(text)
        if candidates:
            raise RunError(
                f"{self.directory}: none of the {len(candidates)} checkpoints can be read: all are "
                "damaged.",
                hint="Start the run again in another directory.",
            )
        return None

    def _keep_as_best(self, path: Path, total_steps: int) -> None:
        best = self.directory / f"best-{total_steps:08d}.npz"
        with replacing(best) as temporary:
            temporary.unlink(missing_ok=True)
            try:
                os.link(path, temporary)
            except OSError:  # a file system without links
                shutil.copyfile(path, temporary)
        ranked = sorted(self.list("best"), key=lambda each: self._rank(each.path))
        for worse in ranked[self._keep_best :]:
            _remove(worse.path)

    def _rank(self, path: Path) -> float:
        """Smaller is better; a damaged file is worst."""
        try:
            value = checkpoint_file.read_state(path)["monitored"]
        except DamagedCheckpointError:
            return float("inf")
        return -value if self._larger_is_better else value


def load(path: Path) -> Snapshot:
    """The state in a file.

    Raises:
      DamagedCheckpointError: the file is damaged.
      RunError: another version of tfdp has written it.
    """
    arrays, state = checkpoint_file.read(path)
    try:
        described = state["variables"]
        variables = [
            StateArray(each["name"], array, each["parts"])
            for each, array in zip(described, arrays[: len(described)], strict=True)
        ]
        return Snapshot(
            Progress(
                epochs=state["epochs"],
                step=state["step"],
                total_steps=state["total_steps"],
                history=state["history"],
                left_out=frozenset((epoch, step) for epoch, step in state["left_out"]),
                stopped=state["stopped"],
                rollbacks=state["rollbacks"],
            ),
            variables,
            put_arrays_in(state["callbacks"], arrays[len(described) :]),
            state["monitored"],
            state["logs"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedCheckpointError(
            f"{path}: the checkpoint is damaged: its state lacks {error}."
        ) from error


def _write(path: Path, snapshot: Snapshot) -> None:
    progress = snapshot.progress
    arrays: list[np.ndarray] = []
    state = {
        "epochs": progress.epochs,
        "step": progress.step,
        "total_steps": progress.total_steps,
        "history": {name: list(values) for name, values in progress.history.items()},
        "left_out": sorted(progress.left_out),
        "stopped": progress.stopped,
        "rollbacks": progress.rollbacks,
        "monitored": snapshot.monitored,
        "logs": dict(snapshot.logs),
        "callbacks": take_arrays_out(snapshot.callbacks, arrays),
        "variables": [{"name": each.name, "parts": each.parts} for each in snapshot.variables],
    }
    checkpoint_file.write(path, [*(each.value for each in snapshot.variables), *arrays], state)


def _remove(path: Path) -> None:
    with disk_errors(path), contextlib.suppress(FileNotFoundError):
        path.unlink()
