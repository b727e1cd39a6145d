"""The training itself: ``model.fit`` with the callbacks of a run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import keras
import tensorflow as tf

from tfdp.config import Config
from tfdp.data.arrays import Arrays
from tfdp.data.builder import Examples, TrainingData
from tfdp.data.pipeline import per_replica, training_batches, validation_batches
from tfdp.data.sources.base import Source
from tfdp.data.split import count_rows
from tfdp.errors import DataError
from tfdp.training.display import Display
from tfdp.training.drift import DriftGuard
from tfdp.training.failures import training_errors
from tfdp.training.incidents import IncidentLog
from tfdp.training.listeners import MetricsWriter
from tfdp.training.metrics_log import MetricsLog
from tfdp.training.nonfinite import FiniteGuard
from tfdp.training.run_directory import RunDirectory
from tfdp.training.saver import Checkpoints
from tfdp.training.telemetry import Listener, Telemetry

_log = logging.getLogger("tfdp.training")


@dataclass(frozen=True)
class Feed:
    """Training data in the form that Keras takes.

    Attributes:
      dataset: global batches, one epoch at an iteration unless `steps_per_epoch` says otherwise.
      steps_per_epoch: what Keras must be told, or None where the data set ends by itself.
      steps: steps in an epoch, or None where only the end will tell.
      rows_in_step: examples in step number n, from 0, of an epoch.
      position: lets the next iteration begin at (epoch, step), where that is tfdp's task.
      source: where the examples are read from, the cache if there is one; None for a data set of
        the user's.
    """

    dataset: tf.data.Dataset
    steps_per_epoch: int | None
    steps: int | None
    rows_in_step: Callable[[int], int]
    position: Callable[[int, int], None] | None
    source: Source | None = None


def fit(
    config: Config,
    model: keras.Model,
    data: TrainingData,
    directory: RunDirectory,
    checkpoints: Checkpoints,
    *,
    replicas: int,
    workers: int,
    display: Display | None,
) -> dict[str, list[float]]:
    """Trains `model` from where `checkpoints` stands to the last epoch.

    Args:
      config: the whole config.
      model: see `tfdp.training.build.build_model`.
      data: what to train and validate on.
      directory: where to write.
      checkpoints: has restored what is done already.
      replicas: over all workers.
      workers: how many take part.
      display: where to show progress; None in a worker that writes no files and shows nothing.

    Returns:
      The value of every metric after each epoch, those before a resume included.

    Raises:
      DataError: a data set that does not end and no steps_per_epoch, or a value that TensorFlow
        refuses.
      RunError: the loss is not finite, the disk fails, or memory runs out.
      ClusterError: another worker is gone.
    """
    feed = training_feed(config, data.train, directory.root)
    _log.info(
        "a step has %d examples, %s for each of %d replicas",
        config.data.global_batch,
        per_replica(config.data.global_batch, replicas),
        replicas,
    )
    checkpoints.position = feed.position
    progress = checkpoints.progress
    listeners: list[Listener] = []
    if display is not None:
        log = MetricsLog(directory.metrics)
        log.rewind(progress.epochs, progress.total_steps)
        listeners += [MetricsWriter(log), display]
    telemetry = Telemetry(
        listeners,
        replicas=replicas,
        rows_in_step=feed.rows_in_step,
        steps=feed.steps,
        finished_steps=progress.total_steps,
        finished_steps_in_epoch=progress.step,
    )
    callbacks: list[keras.callbacks.Callback] = [
        telemetry,
        *_guards(config, checkpoints, IncidentLog(directory.incidents) if display else None),
    ]
    if config.output.tensorboard and display is not None:
        callbacks.append(
            keras.callbacks.TensorBoard(log_dir=str(directory.tensorboard), write_graph=False)
        )
    callbacks.append(checkpoints)
    places = (feed.source, data.train, data.validation)
    sources = [place for place in places if isinstance(place, Source)]
    with training_errors(lambda: f"step {telemetry.total_steps}", sources, workers=workers):
        model.fit(
            feed.dataset,
            epochs=config.training.epochs,
            steps_per_epoch=feed.steps_per_epoch,
            validation_data=validation_feed(config, data.validation, directory.root),
            callbacks=callbacks,
            shuffle=False,  # the data set has its order
            verbose=0,
        )
    return checkpoints.history


def training_feed(config: Config, examples: Examples, run_directory: Path = Path()) -> Feed:
    """Global batches of `examples`, as many in an epoch as the config says.

    Raises:
      DataError: a data set that never ends needs `training.steps_per_epoch`, or its batches are
        larger than `data.global_batch`.
    """
    steps = config.training.steps_per_epoch
    if isinstance(examples, Arrays | Source):
        directory = Path(config.module_directory or ".")
        batches = training_batches(
            config.data,
            examples,
            directory=directory,
            steps=steps,
            run_directory=run_directory,
        )
        _log.info("sharding: %s", batches.policy)
        return Feed(
            batches.dataset,
            None,
            batches.steps,
            batches.rows_in_step,
            batches.set_position,
            batches.source,
        )
    rows = _rows_of_first_batch(examples, config.data.global_batch)
    cardinality = int(examples.cardinality())
    if steps is None and cardinality == tf.data.INFINITE_CARDINALITY:
        raise DataError(
            "data.function: the tf.data.Dataset never ends, so nobody knows where an epoch ends.",
            hint="Set training.steps_per_epoch, or do not repeat() the data set.",
        )
    if steps is not None:
        return Feed(examples.repeat(), steps, steps, lambda step: rows, None)
    return Feed(examples, None, cardinality if cardinality > 0 else None, lambda step: rows, None)


def validation_feed(
    config: Config, examples: Examples | None, run_directory: Path = Path()
) -> tf.data.Dataset | None:
    """Global batches of `examples`, each once and in their order.

    Raises:
      DataError: a data set that never ends.
    """
    if isinstance(examples, Arrays | Source):
        return validation_batches(config.data, examples, run_directory=run_directory).dataset
    if examples is not None and int(examples.cardinality()) == tf.data.INFINITE_CARDINALITY:
        raise DataError(
            "data.function: the validation tf.data.Dataset never ends.",
            hint="Do not repeat() it, or take() as many batches as you want.",
        )
    return examples


def _guards(
    config: Config, checkpoints: Checkpoints, incidents: IncidentLog | None
) -> list[keras.callbacks.Callback]:
    """What stops a run whose numbers are wrong; nothing is saved that they object to."""
    place = {
        "finished_steps": checkpoints.progress.total_steps,
        "finished_steps_in_epoch": checkpoints.progress.step,
    }
    # Without a look at the gradients, the batch after the bad one is found.
    gradients = config.training.check_gradients or config.training.on_not_finite.action != "stop"
    finite = FiniteGuard(gradients=gradients, incidents=incidents, **place)
    drift = DriftGuard(config.training.check_replicas_every_steps, incidents=incidents, **place)
    checkpoints.check = finite.check
    return [finite, drift]


def _rows_of_first_batch(examples: tf.data.Dataset, global_batch: int) -> int:
    rows = count_rows(next(iter(examples)))
    rows = global_batch if rows is None else int(rows)
    if rows > global_batch:
        raise DataError(
            f"data.function: the batches of the tf.data.Dataset have {rows} rows, but "
            f"data.global_batch is {global_batch}.",
            hint="Give both the same value: the rows of a step, over all replicas.",
        )
    return rows
