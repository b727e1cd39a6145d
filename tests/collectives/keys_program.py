"""What each worker of `test_instance_keys` runs."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

import tfdp
from tfdp.cluster.tf_config import read_tf_config
from tfdp.collectives.collective import CollectiveReduction
from tfdp.collectives.instance_keys import FIRST, PERIOD

# A step has three operations, of which one runs in every other step.
WARM = FIRST // 2 + 2 * PERIOD
STEPS = WARM + 3 * PERIOD


def contribution(step: Any, replica: int) -> Any:
    return tf.cast(step * (replica + 1), tf.float32)


def sums() -> dict[str, Any]:
    """Of every step: of vectors, a matrix of another dtype, in a branch, between the workers."""
    strategy: Any = tfdp.strategy("multi_worker", devices=2, cross_device_ops="ring")
    cluster = read_tf_config(os.environ)
    assert cluster is not None
    between = CollectiveReduction(len(cluster.workers), group_key=78)

    def reduce(step: Any) -> Any:
        context = tf.distribute.get_replica_context()
        mine = contribution(step, context.replica_id_in_sync_group)
        vector = context.all_reduce("SUM", tf.fill([3], mine))
        matrix = context.all_reduce("SUM", tf.fill([2, 2], tf.cast(mine, tf.float64)))
        branch = tf.cond(
            step % 2 == 0, lambda: context.all_reduce("SUM", mine), lambda: tf.constant(-1.0)
        )
        return tf.reduce_max(vector), tf.reduce_max(matrix), branch

    @tf.function
    def run(step: Any) -> Any:
        replicas = strategy.run(reduce, args=(step,))
        mine = contribution(step, cluster.index)
        return (
            *(strategy.experimental_local_results(each) for each in replicas),
            between.sum(tf.fill([5], mine))[4],
            between.sum(tf.fill([4], mine))[0],
        )

    found, keys = [], []
    for step in range(STEPS):
        *local, five, four = run(tf.constant(step))
        found.append(
            [float(value) for parts in local for value in parts] + [float(five), float(four)]
        )
        eager = strategy.reduce("SUM", strategy.run(contribution, (step, 0)), axis=None)
        found[-1].append(float(eager))
        keys.append(
            sum(
                number
                for group in strategy.extended._collective_keys._instance_key_table.values()
                for number in group.values()
            )
        )
    return {"found": found, "new keys": keys[-1] - keys[WARM]}
