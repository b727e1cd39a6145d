"""What the groups of `test_train_workers.py` train; one of its layers can hurt its own process."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

ORDERS_VARIABLE = "TFDP_TEST_ORDERS"
STEPS_PER_EPOCH, EPOCHS = 6, 2


def data() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """44 and 10 rows: with a global batch of 8, the last one is smaller."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(54, 4)).astype("float32")
    y = x[:, :3].argmax(axis=1)
    return (x[:44], y[:44]), (x[44:], y[44:])


def model() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(8, use_bias=False),
            keras.layers.BatchNormalization(synchronized=True),
            keras.layers.Activation("tanh"),
            Saboteur(),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )


def order(folder: Path, number: int, worker: int, step: int, sent: signal.Signals) -> None:
    """Worker sends itself a signal in this step of its process, from 1; lower numbers first."""
    folder.mkdir(exist_ok=True)
    (folder / f"{number}-{worker}-{step}-{int(sent)}").touch()


@keras.saving.register_keras_serializable("tests")
class Saboteur(keras.layers.Layer):
    """Passes on what it gets; while training, it carries out the first order that there is."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.supports_jit = False
        self._steps = 0

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        if not training or ORDERS_VARIABLE not in os.environ:
            return x
        done = tf.numpy_function(self._obey, [], tf.bool)
        done.set_shape([])
        with tf.control_dependencies([done]):
            return tf.identity(x)

    def _obey(self) -> np.bool_:
        self._steps += 1
        worker = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
        for path in sorted(Path(os.environ[ORDERS_VARIABLE]).iterdir())[:1]:
            _, whose, step, sent = map(int, path.name.split("-"))
            if (whose, step) == (worker, self._steps):
                path.unlink()
                os.kill(os.getpid(), sent)
        return np.bool_(True)
