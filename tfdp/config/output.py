"""Section ``output``: what a run leaves behind, and where."""

from __future__ import annotations

from dataclasses import dataclass

from tfdp.config.checks import a_path, at_least, finite, not_blank, one_of
from tfdp.config.names import BEST_MODES
from tfdp.config.section import Section, setting


@dataclass(frozen=True, kw_only=True)
class CheckpointsConfig(Section):
    """From which state a run can be resumed."""

    every_epochs: int = setting(
        "Epochs from one checkpoint to the next; 0: no checkpoints.", at_least(0), default=1
    )
    every_steps: int = setting(
        "Steps from one checkpoint to the next; 0: none but those of the epochs.",
        at_least(0),
        default=0,
    )
    every_minutes: float = setting(
        "Minutes from one checkpoint to the next; 0: none but the others.",
        finite,
        at_least(0),
        default=0.0,
    )
    keep: int = setting("The latest checkpoints that are kept.", at_least(1), default=3)
    keep_best: int = setting(
        "The best checkpoints that are kept beside them, by monitor.", at_least(0), default=0
    )
    monitor: str = setting(
        "The metric, at the end of an epoch, that tells which checkpoint is best.",
        not_blank,
        default="val_loss",
    )
    mode: str = setting(
        f"Whether smaller or larger values of monitor are better. One of {', '.join(BEST_MODES)}; "
        "auto: larger for accuracy and the like.",
        one_of(BEST_MODES, what="mode"),
        default="auto",
    )
    in_background: bool = setting("Write checkpoints while training goes on.", default=True)


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
