"""Functions that the tests of `tfdp.launch` run in workers."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import numpy as np

from tfdp.errors import PreemptedError


def index() -> int:
    return int(json.loads(os.environ["TF_CONFIG"])["task"]["index"])


def echo(*arguments: Any) -> list[Any]:
    return [index(), *arguments]


def arrays(factor: float) -> dict[str, Any]:
    return {"a": np.arange(4, dtype=np.float32) * factor, "s": np.float64(index()), "t": (1, None)}


def fails() -> None:
    if index() == 1:
        raise ValueError("not today")
    time.sleep(60)


def dies() -> None:
    if index() == 1:
        print("last words", flush=True)
        os.abort()
    time.sleep(60)


def sleeps() -> None:
    time.sleep(0 if index() == 0 else 60)


def returns_an_object() -> object:
    return object()


def saves() -> None:
    raise PreemptedError("saved")


def leaves() -> None:
    os._exit(0)


def trains(rows: int) -> dict[str, Any]:
    """The weights after two steps on all replicas, and how many there are."""
    import keras

    import tfdp

    strategy = tfdp.strategy("multi_worker", devices=int(os.environ["TFDP_DEVICES_PER_WORKER"]))
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(rows, 3)), rng.normal(size=(rows, 1))
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, "tanh")])
        model.set_weights([np.ones((3, 1)), np.zeros(1)])
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    model.fit(x, y, batch_size=rows // 2, epochs=1, shuffle=False, verbose=0)
    return {"replicas": strategy.num_replicas_in_sync, "weights": model.get_weights()}
