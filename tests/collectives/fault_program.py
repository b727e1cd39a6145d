"""What each worker of `test_faults` runs."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tensorflow as tf

import tfdp
from tests.collectives import worker_cases
from tfdp.cluster.tf_config import read_tf_config
from tfdp.collectives.mpi import MpiReduction


def _index() -> int:
    cluster = read_tf_config(os.environ)
    assert cluster is not None
    return cluster.index


def as_ranks() -> dict[str, Any]:
    """Tunes, trains with what was chosen, and then disagrees about one reduction after another."""
    rank = _index()
    strategy: Any = tfdp.strategy("multi_worker", devices=2, autotune=True)
    made = MpiReduction()
    told = {
        "tuning": strategy.tfdp_tuning,
        "reducer": strategy.tfdp_reducer.name,
        "bucket": strategy.extended.tfdp_bucket_bytes,
        "again": tfdp.strategy("multi_worker", devices=2, autotune=True) is strategy,
        "fit": worker_cases.fit(strategy),
        "rank": made.rank,
    }
    other = [tf.ones(4), tf.ones(5)] if rank else [tf.ones(5), tf.ones(4)]
    cases: dict[str, Any] = {
        "shape": lambda: [made.sum(tf.ones(4 + rank))],
        "dtype": lambda: [made.sum(tf.ones(4, tf.float64 if rank else tf.float32))],
        "order": lambda: [made.sum(each) for each in other],
        "kind": lambda: [made.gather(tf.ones(4)) if rank else made.sum(tf.ones(4))],
        "row": lambda: [made.gather(tf.ones((1, 2 + rank)))],
    }
    for name, case in cases.items():
        try:
            tf.function(case, autograph=False)()
            told[name] = "nothing was noticed"
        except tf.errors.OpError as error:
            told[name] = str(error)
    told["after"] = made.sum(tf.constant([rank + 1.0])).numpy()
    return told


def flat_or_two_level(name: str) -> None:
    """Workers with other shapes."""
    strategy: Any = tfdp.strategy("multi_worker", devices=1, cross_device_ops=name)
    size = 4 + _index()

    @tf.function(autograph=False)
    def run() -> Any:
        return strategy.run(
            lambda: tf.distribute.get_replica_context().all_reduce("SUM", [tf.ones(size)])
        )

    run()


def dies() -> None:
    """Worker 1 dies while the other one is in a reduction."""
    made = MpiReduction()
    made.sum(tf.ones(3))
    if _index():
        os._exit(3)
    made.sum(tf.ones(3))


def numbers(told: dict[str, Any]) -> list[np.ndarray]:
    return [np.asarray(each) for each in told["fit"]]
