"""The directory that a run writes to: who may, and what lies where.

This module does not load TensorFlow.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from tfdp.config.schema import Config
from tfdp.errors import RunError
from tfdp.training.files import disk_errors, write_text
from tfdp.training.lock import take_directory

MAY_CHANGE = (
    "data.parallel_calls",
    "data.prefetch",
    "data.service",
    "training.epochs",
    "training.check_gradients",
    "training.check_replicas_every_steps",
    "training.on_not_finite",
    "strategy",
    "output",
    "module_directory",
)
"""Keys that a resumed run may change: the examples, the model and each step stay the same.

The strategy is among them because the number of replicas does not change what is trained.
"""


@dataclass(frozen=True)
class RunDirectory:
    """The paths of a run.

    Attributes:
      root: the directory itself.
    """

    root: Path

    @property
    def config(self) -> Path:
        """The config with all defaults, YAML."""
        return self.root / "config.yaml"

    @property
    def metrics(self) -> Path:
        """One JSON object a line: see `tfdp.training.metrics_log`."""
        return self.root / "metrics.jsonl"

    @property
    def incidents(self) -> Path:
        """One JSON object a line: see `tfdp.training.incidents`."""
        return self.root / "incidents.jsonl"

    @property
    def autotune(self) -> Path:
        """What the trial of `strategy.autotune` has found, JSON."""
        return self.root / "autotune.json"

    @property
    def checkpoints(self) -> Path:
        """What the run can be resumed from: see `tfdp.training.checkpoints`."""
        return self.root / "checkpoints"

    @property
    def tensorboard(self) -> Path:
        """TensorBoard event files."""
        return self.root / "tensorboard"

    @property
    def model(self) -> Path:
        """The trained model, which plain Keras loads."""
        return self.root / "model.keras"

    def check(self, config: Config, *, resume: bool | Literal["auto"]) -> bool:
        """Refuses a directory that this run must not or cannot write to; changes nothing.

        Args:
          config: what is to be trained.
          resume: whether to go on with the run that is there; "auto": if there is one.

        Returns:
          Whether a run is to go on.

        Raises:
          RunError: it exists and is not empty, it is not a directory, it cannot be written to, or
            there is no run, or another one, to resume.
        """
        if resume == "auto":
            resume = self.config.is_file()
        if resume:
            self._check_same_run(config)
        elif self.root.is_dir() and any(self.root.iterdir()):
            raise RunError(
                f"{self.root}: the run directory exists already, and it is not empty.",
                hint="Go on with that run by --resume, or name another directory "
                "(--set output.directory=...).",
            )
        self._check_writable()
        return resume

    def create(self, config: Config) -> None:
        """Makes the directory, takes it for this process as long as it lives, writes the config.

        Raises:
          RunError: the disk or the permissions do not allow it, or another process trains there.
        """
        with disk_errors(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            self.checkpoints.mkdir(exist_ok=True)
        take_directory(self.root)
        write_text(self.config, config.to_yaml())

    def _check_same_run(self, config: Config) -> None:
        try:
            text = self.config.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise RunError(
                f"{self.root}: there is no run to resume (no {self.config.name}).",
                hint="Start it without --resume.",
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(f"{self.config}: cannot be read: {error}.") from error
        changed = _differences(_load(self.config, text), yaml.safe_load(config.to_yaml()))
        if changed:
            raise RunError(
                f"{self.root}: cannot be resumed with another config:\n" + "\n".join(changed),
                hint=f"A resumed run may change {', '.join(MAY_CHANGE)}; for anything else start "
                "another run.",
            )

    def _check_writable(self) -> None:
        existing = self.root.absolute()
        while not os.path.lexists(existing):
            existing = existing.parent
        if not existing.is_dir():
            raise RunError(f"{self.root}: {existing} is a file, not a directory.")
        if not os.access(existing, os.W_OK | os.X_OK):
            raise RunError(
                f"{self.root}: cannot be written: {existing} is read-only.",
                hint="Change its permissions, or name another directory "
                "(--set output.directory=...).",
            )


def _load(path: Path, text: str) -> Mapping[str, Any]:
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise RunError(f"{path}: is not YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(content, Mapping):
        raise RunError(f"{path}: is not a config.")
    return content


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    old, new = dict(_flatten(before)), dict(_flatten(now))
    return [
        f"{key} was {old.get(key)!r} and is now {new.get(key)!r}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and not _may_change(key)
    ]


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _may_change(key: str) -> bool:
    return any(key == allowed or key.startswith(f"{allowed}.") for allowed in MAY_CHANGE)
