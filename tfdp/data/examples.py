"""What there is to train on: rows in memory, a source, or somebody's own data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import tensorflow as tf

from tfdp.data.arrays import Arrays
from tfdp.data.sources.base import Source

Examples: TypeAlias = Arrays | Source | tf.data.Dataset
"""Rows in memory, a source that is read while training, or a data set of *global* batches (all
replicas together)."""


@dataclass(frozen=True)
class TrainingData:
    """The examples to train on, and those to validate on, if any."""

    train: Examples
    validation: Examples | None = None
