"""The model of a run: built, compiled, and known to be savable before it trains for hours."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdp.config import Config
from tfdp.data.arrays import Arrays
from tfdp.data.builder import Examples, TrainingData
from tfdp.data.pipeline import first_rows
from tfdp.data.sources.base import Source
from tfdp.errors import ConfigError
from tfdp.models.compiling import build_optimizer, compile_model
from tfdp.models.registry import named_model, user_model
from tfdp.strategies.batch_norm import synchronize_batch_norm
from tfdp.training.checks import check_examples_fit_model, class_count, row_shape

_log = logging.getLogger("tfdp.training")


def build_model(config: Config, data: TrainingData) -> keras.Model:
    """Makes the model that `config` describes; to be called in the scope of the strategy.

    Args:
      config: the whole config.
      data: what the model is to be trained on; a model that ships with tfdp takes its input shape
        and number of classes from there.

    Returns:
      The model, compiled, with all variables of itself and its optimizer.

    Raises:
      ConfigError: the model or optimizer cannot be made, or the model cannot be saved.
      DataError: the data do not fit the model.
    """
    model = _make(config, data)
    if config.strategy.sync_batch_norm:
        synchronize_batch_norm(model)
    if getattr(model, "compiled", False):
        _log.info("the model is compiled: sections optimizer and training do not change that")
    else:
        compile_model(
            model,
            optimizer=build_optimizer(
                config.optimizer.name, config.optimizer.learning_rate, config.optimizer.arguments
            ),
            loss=config.training.loss,
            metrics=config.training.metrics,
            steps_per_execution=config.training.steps_per_execution,
            jit_compile=config.training.jit_compile,
        )
    _ensure_serializable(model)
    if not model.built:
        _build_on_first_row(model, data.train)
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    for part in (data.train, data.validation):
        if part is not None:
            check_examples_fit_model(part, model)
    return model


def _make(config: Config, data: TrainingData) -> keras.Model:
    arguments = config.model.arguments
    if config.model.function is not None:
        directory = Path(config.module_directory or ".")
        return user_model(config.model.function, arguments, directory)
    row = row_shape(data.train)
    known = row is not None and None not in row
    return named_model(
        str(config.model.name),
        arguments,
        input_shape=row if known else None,  # type: ignore[arg-type]
        classes=class_count(data.train, data.validation),
    )


def _ensure_serializable(model: keras.Model) -> None:
    try:
        keras.saving.serialize_keras_object(model)
    except Exception as error:  # whatever the user's get_config raises
        raise ConfigError(
            f"model: {type(model).__name__} could not be saved after training: "
            f"{type(error).__name__}: {' '.join(str(error).split())}",
            hint="Give the class a get_config() (see keras.saving.register_keras_serializable).",
        ) from error


def _build_on_first_row(model: keras.Model, examples: Examples) -> None:
    """Calls the model once, which makes the variables of one without an input shape."""
    try:
        model(_first_row(examples), training=False)
    except Exception as error:  # the user's own call() runs here
        raise ConfigError(
            f"model: {type(model).__name__} cannot be called on the first example: "
            f"{type(error).__name__}: {' '.join(str(error).split())}"
        ) from error


def _first_row(examples: Examples) -> Any:
    if isinstance(examples, Arrays):
        examples = examples.take(np.arange(1), examples.place)
    if isinstance(examples, Arrays | Source):
        examples = first_rows(examples)
    x = next(iter(examples))[0]
    return tf.nest.map_structure(lambda part: part[:1], x)
