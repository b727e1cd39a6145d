"""What the chaos runs train: a small model on made-up rows, by a config like any other."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np

from tfdp.config import Config
from tfdp.config.data import DataConfig
from tfdp.config.model import ModelConfig
from tfdp.config.output import CheckpointsConfig, OutputConfig
from tfdp.config.schema import VERSION
from tfdp.config.strategy import StrategyConfig
from tfdp.config.training import TrainingConfig

ROWS, FEATURES, CLASSES, GLOBAL_BATCH = 1_280, 16, 4, 32
STEPS_PER_EPOCH = ROWS // GLOBAL_BATCH
SAVE_EVERY_STEPS = 15


def data() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Training and validation rows: the class is where the largest of four sums is."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS + 640, FEATURES)).astype("float32")
    y = x.reshape(-1, CLASSES, FEATURES // CLASSES).sum(axis=2).argmax(axis=1)
    return (x[:ROWS], y[:ROWS]), (x[ROWS:], y[ROWS:])


def model() -> keras.Model:
    """With what has a state of its own: normalization and dropout."""
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(CLASSES, activation="softmax"),
        ]
    )


def config(run_directory: Path, epochs: int) -> Config:
    """The config of a run; `deterministic`, so that two runs can be compared to the bit."""
    return Config(
        version=VERSION,
        strategy=StrategyConfig(kind="multi_worker"),
        data=DataConfig(function=f"{__name__}:data", global_batch=GLOBAL_BATCH, seed=1),
        model=ModelConfig(function=f"{__name__}:model"),
        training=TrainingConfig(epochs=epochs, deterministic=True, check_replicas_every_steps=100),
        output=OutputConfig(
            directory=str(run_directory),
            tensorboard=False,
            checkpoints=CheckpointsConfig(every_steps=SAVE_EVERY_STEPS, keep=4),
        ),
    )
