"""What one worker of the tests in `test_workers.py` runs: `python -m ... TASK FOLDER`.

Prints one line of JSON with what the worker saw.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfdp


def model(strategy: Any) -> keras.Model:
    with strategy.scope():
        net = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(1)])
        net.compile(keras.optimizers.Adam(0.1, gradient_accumulation_steps=2), "mse")
    return net


def rows(n: int = 20) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 3)), rng.normal(size=(n, 1))


def digest(net: keras.Model) -> str:
    return "".join(np.asarray(w).tobytes().hex()[:64] for w in net.get_weights())


def files(strategy: Any, folder: Path) -> dict[str, Any]:
    """Every callback that writes, with an accumulation that is unfinished when it saves."""
    keras.utils.set_random_seed(1)
    net = model(strategy)
    net.fit(
        *rows(),
        batch_size=7,
        epochs=2,
        verbose=0,
        callbacks=[
            keras.callbacks.ModelCheckpoint(folder / "best.keras", monitor="loss"),
            keras.callbacks.BackupAndRestore(folder / "backup", delete_checkpoint=False),
            keras.callbacks.CSVLogger(str(folder / "log.csv")),
            keras.callbacks.TensorBoard(folder / "events"),
        ],
    )
    return {"weights": digest(net)}


def restored(strategy: Any, folder: Path) -> dict[str, Any]:
    """A second run that continues from the backup which `files` has left."""
    keras.utils.set_random_seed(2)
    net = model(strategy)
    backup = keras.callbacks.BackupAndRestore(folder / "backup")
    history = net.fit(*rows(), batch_size=7, epochs=3, verbose=0, callbacks=[backup])
    return {"weights": digest(net), "epochs": history.epoch}


def unseeded(strategy: Any, folder: Path) -> dict[str, Any]:
    """A shuffle without a seed: all workers have to shuffle alike, every row used once."""
    del folder
    net = model(strategy)
    x = np.eye(3)[np.arange(20) % 3] * 2.0 ** np.arange(20)[:, None]
    data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).shuffle(20).batch(8)
    used = 0.0
    for batch in strategy.experimental_distribute_dataset(data):
        totals = strategy.run(lambda b: tf.reduce_sum(b[0]), args=(batch,))
        used += float(strategy.reduce("SUM", totals, axis=None))
    net.fit(data, epochs=2, verbose=0)
    return {"used": used, "expected": float(x.sum())}


def different(strategy: Any, folder: Path) -> dict[str, Any]:
    """Worker 1 reads other data than worker 0."""
    del folder
    net = model(strategy)
    x, y = rows()
    if not strategy.tfdp_is_chief:
        x = x[::-1].copy()
    try:
        net.fit(x, y, batch_size=7, verbose=0, shuffle=False)
    except tfdp.errors.DataError as error:
        return {"error": str(error)}
    return {}


def lengths(strategy: Any, folder: Path) -> dict[str, Any]:
    """Worker 1 has fewer rows than worker 0."""
    del folder
    net = model(strategy)
    x, y = rows(20 if strategy.tfdp_is_chief else 13)
    try:
        net.fit(x, y, batch_size=7, verbose=0, shuffle=False)
    except tfdp.errors.DataError as error:
        return {"error": str(error)}
    return {}


def own_shards(strategy: Any, folder: Path) -> dict[str, Any]:
    """Workers that read files of their own on purpose, 13 rows and 7, in batches of 5."""
    del folder
    keras.utils.set_random_seed(3)
    with strategy.scope():
        net = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, use_bias=False)])
        net.compile(keras.optimizers.SGD(0.125), "mse")
    net.layers[0].set_weights([np.ones((3, 1))])
    x, y = rows()
    mine = slice(0, 13) if strategy.tfdp_is_chief else slice(13, 20)
    off = tf.data.Options()
    off.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    data = tf.data.Dataset.from_tensor_slices((x[mine], y[mine])).batch(5).with_options(off)
    net.fit(data, verbose=0)
    return {"kernel": net.layers[0].kernel.numpy().ravel().tolist()}


def main() -> None:
    keras.config.set_floatx("float64")
    strategy = tfdp.strategy("multi_worker", devices=2)
    assert tfdp.strategy("multi_worker", devices=2) is strategy, "a cell that runs twice"
    print(json.dumps(globals()[sys.argv[1]](strategy, Path(sys.argv[2]))), flush=True)


if __name__ == "__main__":
    main()
