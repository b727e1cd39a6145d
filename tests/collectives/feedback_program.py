"""A worker that trains with compression that owes: in one go, and resumed from what was saved."""

from __future__ import annotations

import json
import sys
from typing import Any

import keras
import numpy as np

import tfdp
from tfdp.collectives.compression import Compression, compress
from tfdp.training.variables import StateReader, assign_state

EPOCHS = 1


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(32, 40)).astype(np.float32)
    return x, (x[:, :3] @ rng.normal(size=(3, 1))).astype(np.float32)


def build(strategy: Any) -> keras.Model:
    keras.utils.set_random_seed(2)
    with strategy.scope():
        model = keras.Sequential(
            [keras.Input((40,)), keras.layers.Dense(64, activation="tanh"), keras.layers.Dense(1)]
        )
        model.compile(keras.optimizers.Adam(0.01), "mse")
    return model


def fit(model: keras.Model, begin: int, end: int) -> None:
    x, y = data()
    model.fit(x, y, batch_size=8, initial_epoch=begin, epochs=end, shuffle=False, verbose=0)


def weights(model: keras.Model) -> list[list[float]]:
    return [each.ravel().astype(float).tolist() for each in model.get_weights()]


def main() -> None:
    devices = int(sys.argv[1])
    strategy: Any = tfdp.strategy(
        "multi_worker",
        devices=devices,
        cross_device_ops="two_level",
        compression="powersgd",
        compression_rank=2,
        compression_warmup_steps=2,
    )
    extended = strategy.extended
    found: dict[str, Any] = {}
    for name in ("powersgd", "topk"):
        if name == "topk":
            wanted = Compression(name, ratio=0.05, warmup_steps=2)
            extended.tfdp_gradient_reduction = compress(extended.tfdp_worker_reduction, wanted)
        whole = build(strategy)
        fit(whole, 0, 2 * EPOCHS)
        first = build(strategy)
        fit(first, 0, EPOCHS)
        state = StateReader(first).read()
        second = build(strategy)
        with strategy.scope():
            assign_state(second, state, "the state")
        fit(second, EPOCHS, 2 * EPOCHS)
        owed = [each for each in state if "compression_residual" in each.name]
        found[name] = {
            "whole": weights(whole),
            "resumed": weights(second),
            "owed": [[list(each.value.shape), each.parts] for each in owed],
            "debts": [np.abs(each.value).max(axis=(1, 2)).tolist() for each in owed],
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
