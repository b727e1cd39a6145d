"""From section ``data`` of a config to the batches of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from tfdp.config.data import DataConfig
from tfdp.config.functions import load_function
from tfdp.data.arrays import Arrays
from tfdp.data.batches import EpochBatches
from tfdp.data.cache import cached
from tfdp.data.finish import Transform
from tfdp.data.sources.base import Source


def training_batches(
    config: DataConfig,
    source: Arrays | Source,
    *,
    directory: Path,
    steps: int | None = None,
    run_directory: Path = Path(),
) -> EpochBatches:
    """The batches to train on, epoch after epoch.

    Args:
      config: section ``data``.
      source: the examples.
      directory: where the user's module is looked for first.
      steps: batches in an epoch; None for one sweep over the examples.
      run_directory: where a cache in files is, unless its path is absolute.

    Raises:
      ConfigError: there is no such transform.
      DataError: the transform cannot be used, nothing is left after dropping the remainder, or the
        policy cannot be had.
    """
    return EpochBatches(
        _cached(config, source, run_directory),
        global_batch=config.global_batch,
        seed=config.seed,
        shuffle=config.shuffle,
        steps=steps,
        remainder=config.remainder,
        shuffle_buffer=config.shuffle_buffer,
        shard=config.shard,
        transform=_transform(config, directory),
        parallel_calls=config.parallel_calls,
        prefetch=config.prefetch,
        service=config.service,
    )


def validation_batches(
    config: DataConfig, source: Arrays | Source, *, run_directory: Path = Path()
) -> EpochBatches:
    """The batches to validate on: every example once, in order, as it is.

    They are neither padded nor dropped: metrics would count the one and miss the other.
    """
    return EpochBatches(
        _cached(config, source, run_directory),
        global_batch=config.global_batch,
        shuffle=False,
        shard="off" if config.shard == "off" else "auto",
        parallel_calls=config.parallel_calls,
        prefetch=config.prefetch,
    )


def first_rows(source: Arrays | Source, rows: int = 1) -> tf.data.Dataset:
    """A data set whose first element is a batch of the first rows, finished."""
    return EpochBatches(
        source, global_batch=rows, shuffle=False, parallel_calls=1, prefetch=0
    ).dataset


def input_spec(source: Arrays | Source) -> Any:
    """The types of a batch `(x, y)` or `(x, y, sample_weight)`."""
    return first_rows(source).element_spec


def per_replica(global_batch: int, replicas: int) -> str:
    """How many rows of a full batch a replica gets, in words."""
    most, least = -(-global_batch // replicas), global_batch // replicas
    return str(most) if most == least else f"{least} or {most}"


def _cached(config: DataConfig, source: Arrays | Source, run_directory: Path) -> Arrays | Source:
    if config.cache is None or isinstance(source, Arrays):
        return source
    return cached(source, config.cache, run_directory)


def _transform(config: DataConfig, directory: Path) -> Transform | None:
    if config.transform is None:
        return None
    return load_function(config.transform, key="data.transform", directory=directory)
