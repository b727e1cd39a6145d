"""One of two workers that train on the files in a folder; prints the weights of each task."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

import tfdp
from tests.data.rows import BATCH, FEATURES, inputs, start
from tfdp.data.arrays import Arrays
from tfdp.data.batches import EpochBatches
from tfdp.data.sources.registry import Context, load_source
from tfdp.errors import TfdpError


def fit(strategy: Any, data: Any, epochs: int = 1, position: Any = None) -> list[float]:
    """Weights after SGD at rate 1/8 on the mean of squares."""
    with strategy.scope():
        net = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, use_bias=False)])
        net.compile(keras.optimizers.SGD(0.125), "mse")
    net.layers[0].set_weights([start()])
    callbacks = []
    if position is not None:
        callbacks = [keras.callbacks.LambdaCallback(on_epoch_begin=lambda e, logs: position(e))]
    net.fit(data, epochs=epochs, verbose=0, shuffle=False, callbacks=callbacks)
    return [float(value) for value in net.get_weights()[0].ravel()]


def source(folder: Path, files: str, worker: int | None = None) -> Any:
    arguments = {"files": files, "features": FEATURES, "target": "y"}
    return load_source("tfrecord", arguments, Context(folder, worker)).train


def own(folder: Path, pattern: str) -> tf.data.Dataset:
    """What somebody writes who wants each worker to read its own files."""

    def parse(record: tf.Tensor) -> Any:
        one = tf.io.parse_single_example(
            record,
            {
                "x": tf.io.FixedLenFeature([2], tf.float32),
                "y": tf.io.FixedLenFeature([1], tf.float32),
            },
        )
        return tf.cast(one["x"], tf.float64), tf.cast(one["y"], tf.float64)

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
    files = sorted(map(str, folder.glob(pattern)))
    return tf.data.TFRecordDataset(files).map(parse).batch(BATCH).with_options(options)


def tasks(strategy: Any, folder: Path, worker: int) -> dict[str, Any]:
    x, y = inputs(range(20))
    rows = EpochBatches(Arrays(x, y), global_batch=BATCH, seed=5)
    stream = EpochBatches(
        source(folder, "*.tfrecord"), global_batch=BATCH, seed=5, shuffle_buffer=7
    )
    files = EpochBatches(
        source(folder, "*.tfrecord"), global_batch=BATCH, shuffle=False, shard="file"
    )
    mine = EpochBatches(
        source(folder, "{worker}.tfrecord", worker), global_batch=BATCH, shuffle=False
    )
    return {
        "rows": fit(strategy, rows.dataset, 2, rows.set_epoch),
        "stream": fit(strategy, stream.dataset, 2, stream.set_epoch),
        "file": fit(strategy, files.dataset, 2, files.set_epoch),
        "mine": fit(strategy, mine.dataset),
        "own": fit(strategy, own(folder, "*.tfrecord")),
        "too_few": fit(strategy, own(folder, "0.*")),
        "different": refused(
            lambda: fit(strategy, EpochBatches(Arrays(x + worker, y), global_batch=BATCH).dataset)
        ),
    }


def refused(call: Any) -> str:
    try:
        return f"not refused: {call()}"
    except TfdpError as error:
        return str(error)


def main() -> None:
    keras.config.set_floatx("float64")
    warnings: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: warnings.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("tfdp").addHandler(handler)
    strategy = tfdp.strategy("multi_worker", devices=1)
    worker = int(json.loads(os.environ["TF_CONFIG"])["task"]["index"])
    results = tasks(strategy, Path(sys.argv[1]), worker)
    print(json.dumps({**results, "warnings": [w for w in warnings if "shard_policy" in w]}))


if __name__ == "__main__":
    main()
