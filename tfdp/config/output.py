"""Section ``output``: what a run leaves behind, and where."""

from __future__ import annotations

from dataclasses import dataclass

from tfdp.config.checks import a_path, at_least
from tfdp.config.section import Section, setting


@dataclass(frozen=True, kw_only=True)
class CheckpointsConfig(Section):
    """From which state a run can be resumed."""

    every_epochs: int = setting(
        "Epochs from one checkpoint to the next; 0: no checkpoints.", at_least(0), default=1
    )
    keep: int = setting("The latest checkpoints that are kept.", at_least(1), default=3)


@dataclass(frozen=True, kw_only=True)
class OutputConfig(Section):
    """The run directory and what is written to it."""

    directory: str = setting(
        "The run directory, relative to the current directory. It must not exist yet, except "
        "with --resume.",
        a_path,
        default="runs/train",
    )
    tensorboard: bool = setting("Write TensorBoard event files.", default=True)
    checkpoints: CheckpointsConfig = setting(
        "From which state the run can be resumed.", default=CheckpointsConfig
    )
