"""Small runs: a linear model on twenty-two rows, by functions that every test finds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tfdp.config import Config, load_config

FUNCTIONS = """
import keras
import numpy as np
import tensorflow as tf

def rows(count=22, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 4)).astype("float32"), rng.integers(0, classes, count)

def both():
    return rows(), rows(10, seed=1)

def labels_out_of_range():
    x, y = rows()
    y[5] = 7
    return x, y

def line():
    x, _ = rows()
    return x, x.sum(axis=1, keepdims=True)

def poisoned():
    x, y = line()
    x[10] = 1e30
    return x, y

def dataset(repeat=False, batch=8, classes=3):
    data = tf.data.Dataset.from_tensor_slices(rows(classes=classes)).batch(batch)
    return data.repeat() if repeat else data

def linear(classes=3, dropout=0.0, width=4):
    return keras.Sequential([
        keras.Input((width,)),
        keras.layers.Dense(8, activation="tanh"),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(dropout, seed=5),
        keras.layers.Dense(classes, activation="softmax"),
    ])

def regression():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])

def unbuilt():
    return keras.Sequential([keras.layers.Dense(3, activation="softmax")])

def compiled():
    model = linear()
    model.compile("rmsprop", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model

def unsavable():
    class Odd(keras.Model):
        def __init__(self, function):
            super().__init__()
            self.dense = keras.layers.Dense(3, activation="softmax")
        def call(self, x):
            return self.dense(x)
        def get_config(self):
            raise NotImplementedError("no config")
    return Odd(lambda x: x)
"""

MODULE = "functions_of_training_tests"


def write_config(folder: Path, **changes: Any) -> Path:
    """Writes a config that trains in a second; ``section__key=value`` changes it."""
    (folder / f"{MODULE}.py").write_text(FUNCTIONS)
    tree: dict[str, Any] = {
        "version": 1,
        "strategy": {"kind": "single"},
        "data": {"function": f"{MODULE}:both", "global_batch": 8, "seed": 3},
        "model": {"function": f"{MODULE}:linear"},
        "optimizer": {"name": "adam", "learning_rate": 0.01},
        "training": {"epochs": 2, "seed": 1},
        "output": {"directory": str(folder / "run"), "tensorboard": False},
    }
    for key, value in changes.items():
        *sections, last = key.split("__")
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = f"{MODULE}:{value}" if last == "function" and value else value
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def make_config(folder: Path, **changes: Any) -> Config:
    """The config that `write_config` writes."""
    return load_config(write_config(folder, **changes))


@contextmanager
def functions_forgotten() -> Iterator[None]:
    """Undoes what importing the functions leaves in this process."""
    import sys

    path = sys.path[:]
    try:
        yield
    finally:
        sys.path[:] = path
        sys.modules.pop(MODULE, None)
