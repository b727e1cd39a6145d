"""``tfdp train``: from a config to a run directory."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import keras
import tensorflow as tf
from rich.console import Console

from tfdp.config import Config
from tfdp.config.output import OutputConfig
from tfdp.data.arrays import Arrays
from tfdp.data.builder import load_data
from tfdp.errors import RunError
from tfdp.training.build import build_model
from tfdp.training.checks import check_row_for_each_replica
from tfdp.training.compute import build_strategy, cluster_of, compute_settings
from tfdp.training.display import choose_display, summary_table
from tfdp.training.files import replacing, write_text
from tfdp.training.fit import fit
from tfdp.training.incidents import IncidentLog, Kind
from tfdp.training.lock import given_back
from tfdp.training.progress import Progress
from tfdp.training.recovery import Note, recovering
from tfdp.training.run_directory import RunDirectory
from tfdp.training.saver import Checkpoints
from tfdp.training.workers import check_same_progress

_log = logging.getLogger("tfdp.training")


@dataclass(frozen=True)
class TrainResult:
    """What a run came to.

    Attributes:
      run_directory: where worker 0 has written everything.
      history: value of every metric after each epoch, those before a resume included.
      metrics: the values after the last epoch; empty if nothing was trained.
    """

    run_directory: Path
    history: dict[str, list[float]]
    metrics: dict[str, float]


Resume = bool | Literal["auto"]
"""Whether to go on with the run in the directory; "auto": if there is one."""


def train(config: Config, *, resume: Resume = False, console: Console | None = None) -> TrainResult:
    """Trains what `config` describes, and writes the run directory.

    With TF_CONFIG set, every worker calls this; worker 0 alone writes files and shows progress.

    Args:
      config: see `tfdp.config`.
      resume: whether to go on from the last checkpoint of the run directory; a run that has none
        yet starts from the beginning. "auto": go on if there is a run, else start one.
      console: where to show progress; None for standard output.

    Raises:
      PreemptedError: SIGTERM or SIGINT asked the run to stop; it has saved, and can go on.
      RunError: the run directory exists (without `resume`), is no run (with it), cannot be written,
        or training diverged.
      ConfigError: the user's functions, the optimizer or the global batch cannot be used.
      DataError: the examples cannot be trained on.
      StrategyError: the devices or cross-device ops cannot be had.
      ClusterError: TF_CONFIG is malformed, or another worker is gone.
      UnsupportedError: an unsupported version, backend or feature.
    """
    cluster = cluster_of(config.strategy, os.environ)
    chief = cluster is None or cluster.is_chief
    directory = RunDirectory(Path(config.output.directory))
    # All workers check before they meet in build_strategy, and worker 0 writes only after it: so
    # nobody takes the directory of this run for that of another.
    resume = directory.check(config, resume=resume)
    with compute_settings(config.training), given_back(directory.root):
        strategy = build_strategy(config.strategy, {"config": _digest(config)})
        replicas = strategy.num_replicas_in_sync
        check_row_for_each_replica(config.data.global_batch, replicas)
        data = load_data(
            config.data,
            Path(config.module_directory or "."),
            worker=None if cluster is None else cluster.index,
        )
        note = _notes(directory, chief=chief)
        checkpoints = _checkpoints(config, directory, note)
        with strategy.scope():
            model = build_model(config, data)
            progress = checkpoints.restore(model) if resume else Progress()
            if not resume:  # another worker may go on: it has to hear that this one does not
                check_same_progress(strategy, progress, str(directory.root))
        _check_epochs(progress, config, directory)
        if resume:
            _warn_of_order(data.train)
        if chief:
            directory.create(config)
            _note_tuning(strategy, directory)
        shown = console or Console()
        display = choose_display(shown) if chief else None
        with display or nullcontext():
            history = recovering(
                lambda: fit(
                    config,
                    model,
                    data,
                    directory,
                    checkpoints,
                    replicas=replicas,
                    workers=1 if cluster is None else len(cluster.workers),
                    display=display,
                ),
                model,
                checkpoints,
                config.training.on_not_finite,
                note,
            )
        _save_model(model, directory.model, write=chief)
    result = TrainResult(
        directory.root, history, {name: values[-1] for name, values in history.items()}
    )
    if chief:
        shown.print(summary_table(result.metrics, _files(config, directory)))
    return result


def _note_tuning(strategy: tf.distribute.Strategy, directory: RunDirectory) -> None:
    tuning = getattr(strategy, "tfdp_tuning", None)
    if tuning is not None:
        write_text(directory.autotune, json.dumps(tuning, indent=2) + "\n")


def _digest(config: Config) -> str:
    """A short name of what is trained: workers with other configs would train something else.

    Where files are written may differ between hosts.
    """
    output = dataclasses.replace(config.output, directory=OutputConfig().directory)
    trained = dataclasses.replace(config, output=output, module_directory=None)
    return hashlib.sha256(trained.to_yaml().encode()).hexdigest()[:12]


def _notes(directory: RunDirectory, *, chief: bool) -> Note:
    """What writes to the incident log, which is one worker's task."""
    incidents = IncidentLog(directory.incidents)

    def note(kind: Kind, progress: Progress, details: Mapping[str, Any]) -> None:
        if chief:
            incidents.append(kind, epoch=progress.epochs + 1, step=progress.total_steps, **details)

    return note


def _checkpoints(config: Config, directory: RunDirectory, note: Note) -> Checkpoints:
    settings = config.output.checkpoints
    return Checkpoints(
        directory.checkpoints,
        every_epochs=settings.every_epochs,
        every_steps=settings.every_steps,
        every_minutes=settings.every_minutes,
        keep=settings.keep,
        keep_best=settings.keep_best,
        monitor=settings.monitor,
        mode=settings.mode,
        in_background=settings.in_background,
        resume=False,
        save_at_start=config.training.on_not_finite.action != "stop",
        on_event=note,
    )


def _check_epochs(progress: Progress, config: Config, directory: RunDirectory) -> None:
    if progress.epochs > config.training.epochs:
        raise RunError(
            f"{directory.root}: has trained {progress.epochs} epochs, "
            f"and training.epochs is {config.training.epochs}.",
            hint="Set training.epochs to that or more, or start another run.",
        )


def _warn_of_order(examples: Arrays | tf.data.Dataset) -> None:
    if isinstance(examples, tf.data.Dataset):
        _log.warning(
            "a tf.data.Dataset of your own is read again from its beginning, up to the place where "
            "the run goes on; it has to give the same batches in the same order again"
        )


def _save_model(model: keras.Model, path: Path, *, write: bool) -> None:
    """Reads the variables on every worker, which may be a collective step; one keeps the file."""
    with ExitStack() as stack:
        if write:
            target = stack.enter_context(replacing(path))
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            target = Path(folder) / path.name
        model.save(target)


def _files(config: Config, directory: RunDirectory) -> dict[str, Path]:
    files = {"model": directory.model, "metrics": directory.metrics}
    if directory.checkpoints.is_dir():
        files["checkpoints"] = directory.checkpoints
    if config.output.tensorboard:
        files["tensorboard"] = directory.tensorboard
    return files
