"""Arguments of `fit`, `evaluate` and `predict` for a few steps of somebody's data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfdp.data.arrays import Arrays
from tfdp.data.batches import EpochBatches
from tfdp.data.builder import Examples, TrainingData
from tfdp.data.sources.base import Source


@dataclass(frozen=True)
class Feed:
    """What Keras is given.

    Attributes:
      fit: arguments of `fit`, but for the number of epochs.
      evaluate: arguments of `evaluate`.
      predict: arguments of `predict`.
      what: the number of steps and rows, in words.
    """

    fit: dict[str, Any]
    evaluate: dict[str, Any]
    predict: dict[str, Any]
    what: str


def make_feed(data: TrainingData, batch_size: int, steps: int, *, as_in_training: bool) -> Feed:
    """The first full batches of the data and its last one, which may not divide.

    Args:
      data: to train on, and to validate on if there is any.
      batch_size: rows of a global batch; a `tf.data.Dataset` has its own.
      steps: full batches of an epoch, at the most.
      as_in_training: whether arrays become batches as in `tfdp train`, which scales images.
    """
    train = _without_source(data.train, batch_size)
    if isinstance(train, Arrays):
        train = _few_rows(train, batch_size, steps)
        rest = train.rows % batch_size
        last = f", the last of {rest} row{'s' if rest > 1 else ''}" if rest else ""
        what = f"{-(-train.rows // batch_size)} steps of {batch_size} rows{last}"
    else:
        train = train.take(steps)
        what = f"at most {steps} steps"
    fit = _arguments(train, batch_size, as_in_training)
    evaluate = dict(fit)
    if data.validation is not None:
        validation = _without_source(data.validation, batch_size)
        if isinstance(validation, Arrays):
            validation = _few_rows(validation, batch_size, steps)
        else:
            validation = validation.take(steps)
        evaluate = _arguments(validation, batch_size, as_in_training)
        fit["validation_data"] = (
            evaluate["x"]
            if isinstance(evaluate["x"], tf.data.Dataset)
            else (evaluate["x"], evaluate["y"], evaluate["sample_weight"])
        )
    return Feed(fit, evaluate, _inputs_only(evaluate), what)


def _without_source(examples: Examples, batch_size: int) -> Arrays | tf.data.Dataset:
    if isinstance(examples, Source):
        return EpochBatches(examples, global_batch=batch_size, shuffle=False).dataset
    return examples


def _few_rows(arrays: Arrays, batch_size: int, steps: int) -> Arrays:
    """Full batches from the start, and the rows that the last batch of all the data has."""
    rest = arrays.rows % batch_size
    rows = min(arrays.rows, steps * batch_size + rest)
    return arrays.take(np.arange(rows), arrays.place)


def _arguments(
    examples: Arrays | tf.data.Dataset, batch_size: int, as_in_training: bool
) -> dict[str, Any]:
    if isinstance(examples, tf.data.Dataset):
        return {"x": examples}
    if as_in_training:
        batches = EpochBatches(examples, global_batch=batch_size, shuffle=False)
        return {"x": batches.dataset}
    return {
        "x": examples.x,
        "y": examples.y,
        "sample_weight": examples.sample_weight,
        "batch_size": batch_size,
    }


def _inputs_only(arguments: dict[str, Any]) -> dict[str, Any]:
    if isinstance(arguments["x"], tf.data.Dataset):
        return {"x": arguments["x"].map(lambda x, *rest: x)}
    return {"x": arguments["x"], "batch_size": arguments["batch_size"]}
