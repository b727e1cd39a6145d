"""TensorFlow's collective ops between replicas, without memory that grows with every step."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import cross_device_utils

from tfdp.collectives.instance_keys import RecycledKeys, signature


class _Launcher(cross_device_utils.CollectiveReplicaLauncher):
    """Launches one replica's part of collective ops, with numbers that are taken again.

    `_ordering_token` lets them run one after the other, which `instance_keys` relies on.
    """

    def __init__(self, stock: Any) -> None:
        super().__init__(
            stock._group_key,
            stock._group_size,
            stock._collective_keys,
            stock._device,
            stock._options,
        )
        self._tfdp_keys = RecycledKeys(
            functools.partial(self._collective_keys.get_instance_key, self._group_key, self._device)
        )
        self._tfdp_kind: Hashable | None = None

    def all_reduce(self, input_tensor: Any, control_input: Any = None, options: Any = None) -> Any:
        self._tfdp_kind = signature("reduce", tf.convert_to_tensor(input_tensor))
        return super().all_reduce(input_tensor, control_input, options)

    def _all_gather(self, input_tensor: Any, options: Any) -> Any:
        self._tfdp_kind = signature("gather", tf.convert_to_tensor(input_tensor))
        return super()._all_gather(input_tensor, options)

    def _next_instance_key(self) -> Any:
        kind, self._tfdp_kind = self._tfdp_kind, None
        return self._tfdp_key(kind)

    def _tfdp_key(self, kind: Hashable | None) -> Any:
        if tf.executing_eagerly():
            with tf.device("CPU:0"):
                return tf.constant(self._tfdp_keys.next(kind), tf.int32)
        graph = tf.compat.v1.get_default_graph()
        while getattr(graph, "is_control_flow_graph", False):
            graph = graph.outer_graph
        with graph.as_default():
            # Counted when the outermost function is called, however deep this one is in it.
            return graph.capture_call_time_value(
                functools.partial(self._tfdp_key, kind), tf.TensorSpec([], tf.int32)
            )


def use_recycled_keys(collective_ops: Any) -> None:
    """Replaces what launches the ops of a `CollectiveAllReduce`, before they are traced."""
    collective_ops._launchers = [_Launcher(stock) for stock in collective_ops._launchers]
