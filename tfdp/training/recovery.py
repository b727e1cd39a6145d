"""A run whose numbers are no longer finite goes back to its last good checkpoint.

What was not finite came from a batch, or from a step that was too long. So the run either leaves
the batch out, or goes on at a lower learning rate; a bounded number of times, all of it in the
incident log.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import keras

from tfdp.config.training import NotFiniteConfig
from tfdp.errors import ConfigError, NotFiniteError
from tfdp.training.incidents import Kind
from tfdp.training.progress import Progress
from tfdp.training.saver import Checkpoints
from tfdp.training.workers import check_same_progress

T = TypeVar("T")
Note = Callable[[Kind, Progress, Mapping[str, Any]], None]
"""Writes an incident: its kind, how far the run has come, and details."""

_log = logging.getLogger("tfdp.training")


def recovering(
    run: Callable[[], T],
    model: keras.Model,
    checkpoints: Checkpoints,
    config: NotFiniteConfig,
    note: Note,
) -> T:
    """Calls `run`, and again after each rollback.

    Args:
      run: trains from where `checkpoints` stands to the end.
      model: what it trains.
      checkpoints: of the run.
      config: what to do, and how often.
      note: is told of each rollback.

    Raises:
      NotFiniteError: by `run`, where `config` says stop, or the run has gone back too often.
      ConfigError: the learning rate cannot be lowered, since it follows a schedule.
    """
    last: _Rollback | None = None
    while True:
        try:
            return run()
        except NotFiniteError as error:
            rollbacks = checkpoints.progress.rollbacks
            if config.action == "stop":
                raise
            if rollbacks >= config.max_rollbacks:
                note("stopped", checkpoints.progress, {"rollbacks": rollbacks})
                error.message += (
                    f"\nThe run has gone back {rollbacks} times already, which is "
                    "training.on_not_finite.max_rollbacks."
                )
                raise
            last = _go_back(error, last, model, checkpoints, config, note)


@dataclass(frozen=True)
class _Rollback:
    """From which step, from 1, a run went back, and how many steps it had taken there."""

    from_step: int
    to_steps: int


def _go_back(
    error: NotFiniteError,
    last: _Rollback | None,
    model: keras.Model,
    checkpoints: Checkpoints,
    config: NotFiniteConfig,
    note: Note,
) -> _Rollback:
    _log.warning("%s", error.message)
    before_step = error.step
    if last is not None and error.step <= last.from_step and config.action == "lower_rate":
        # Numbers can be finite and beyond help: the state that led here once more is one of those.
        before_step = min(before_step, last.to_steps)
    store = checkpoints.store
    found = store.load_latest(before_step=before_step) or store.load_latest(before_step=error.step)
    state = Progress() if found is None else found[0].progress
    check_same_progress(
        model.distribute_strategy,
        state,
        str(store.directory),
        () if found is None else found[0].variables,
    )
    if found is None:
        raise error
    snapshot, path = found
    earlier = checkpoints.progress
    skip = config.action == "skip_batch"
    bad = {(error.epoch - 1, error.step_in_epoch)} if skip else set()
    progress = dataclasses.replace(
        state, left_out=earlier.left_out | bad, rollbacks=earlier.rollbacks + 1
    )
    checkpoints.go_on_from(model, dataclasses.replace(snapshot, progress=progress), str(path))
    note("rollback", progress, {"checkpoint": path.name, "from_step": error.step})
    if skip:
        details = {"batch_epoch": error.epoch, "step_in_epoch": error.step_in_epoch}
        note("skipped_batch", progress, details)
    else:
        factor = config.rate_factor ** (progress.rollbacks - state.rollbacks)
        note("rate_lowered", progress, {"learning_rate": _lower_rate(model, factor)})
    return _Rollback(error.step, state.total_steps)


def _lower_rate(model: keras.Model, factor: float) -> float:
    """Multiplies the learning rate; returns what it is now."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    if isinstance(optimizer._learning_rate, keras.optimizers.schedules.LearningRateSchedule):
        raise ConfigError(
            "training.on_not_finite.action is lower_rate, but the learning rate follows a schedule "
            "and cannot be set.",
            hint="Set it to skip_batch.",
        )
    rate = float(optimizer.learning_rate) * factor
    optimizer.learning_rate = rate
    return rate
