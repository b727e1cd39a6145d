"""Private parts of TensorFlow's distribution library, imported in one place.

An ImportError here means a TensorFlow that the version check should have refused.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.autograph.core import ag_ctx as autograph_ctx
from tensorflow.python.autograph.impl import api as autograph
from tensorflow.python.distribute import (
    collective_all_reduce_strategy,
    cross_device_ops,
    distribute_lib,
    distribute_utils,
    mirrored_strategy,
    values,
)
from tensorflow.python.eager import context

Strategy = distribute_lib.Strategy
StrategyExtended = distribute_lib.StrategyExtendedV2
MirroredExtended = mirrored_strategy.MirroredExtended
CollectiveExtended = collective_all_reduce_strategy.CollectiveAllReduceExtended
CollectiveAllReduce = cross_device_ops.CollectiveAllReduce
MirroredVariable = values.MirroredVariable
SyncOnReadVariable = values.SyncOnReadVariable


def convert_like_run(function: Callable[..., Any]) -> Callable[..., Any]:
    """Applies AutoGraph to a replica function as `Strategy.run` would at this point."""
    converted: Callable[..., Any] = autograph.tf_convert(
        function, autograph_ctx.control_status_ctx(), convert_by_default=False
    )
    return converted


def select_replica(replica: int, structure: Any) -> Any:
    """The part of a structure of distributed values that one local replica sees."""
    return distribute_utils.select_replica(replica, structure)


def per_replica(parts: Sequence[Any]) -> Any:
    """One structure of distributed values from the local replicas' structures."""
    return distribute_utils.regroup(tuple(parts), always_wrap=len(parts) > 1)


def replicas_can_meet() -> bool:
    """Whether the calling replica may use `merge_call` here.

    Not in a branch of a `tf.cond` and not in a nested `tf.function`: each builds another graph.
    """
    if tf.executing_eagerly():
        return True
    graph = getattr(threading.current_thread(), "graph", None)
    return graph is tf.compat.v1.get_default_graph()


def global_seed() -> int | None:
    """The seed that `tf.random.set_seed` has set, or None."""
    seed: int | None = context.global_seed()
    return seed


def set_cluster_value(key: str, value: str) -> None:
    """Tells all workers `value`, by the cluster's coordination service; the first value stays."""
    with contextlib.suppress(tf.errors.AlreadyExistsError):
        context.context().set_config_key_value(key, value)


def wait_for_cluster_value(key: str, timeout_seconds: float = 0) -> str:
    """The value that some worker has told or will tell.

    Args:
        key: of the value.
        timeout_seconds: how long to wait; 0 for as long as the cluster is there.

    Raises:
        tf.errors.OpError: the time is up, or the cluster has ended.
    """
    value: str = context.context().get_config_key_value(key, round(timeout_seconds * 1000))
    return value
