"""Replicas on the devices of one machine, in one process."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfdp.collectives import Reducer, Topology
from tfdp.collectives.buckets import DEFAULT_BUCKET_BYTES
from tfdp.strategies.exact import ExactExtended, ExactStrategy
from tfdp.strategies.keras_compat import tensorflow_parts as tfp
from tfdp.strategies.keras_compat.launchers import use_recycled_keys
from tfdp.strategies.keras_compat.local_ops import LocalOps

# Groups of one strategy; those of a multi-worker strategy start at 0, alike on all workers.
_KEYS_PER_STRATEGY = 1000
_key_bases = itertools.count(_KEYS_PER_STRATEGY, _KEYS_PER_STRATEGY)


class _Extended(ExactExtended, tfp.MirroredExtended):
    def __init__(
        self,
        strategy: Any,
        devices: Sequence[str],
        reducer: Reducer,
        topology: Topology,
        bucket_bytes: int,
    ) -> None:
        self._tfdp_topology = topology
        self.tfdp_use(reducer, bucket_bytes)
        tfp.MirroredExtended.__init__(
            self, strategy, devices=list(devices), cross_device_ops=self.tfdp_cross_device_ops
        )

    def tfdp_use(self, reducer: Reducer, bucket_bytes: int) -> None:
        """What is traced from now on is reduced so."""
        topology = self._tfdp_topology
        self.tfdp_bucket_bytes = bucket_bytes
        self.tfdp_implementation = reducer.implementation(topology)
        local = reducer.local_reduction(topology)
        self.tfdp_cross_device_ops = (
            reducer.cross_device_ops(topology) if local is None else LocalOps(local, bucket_bytes)
        )

    def tfdp_collective_ops(self) -> Any:
        return self._collective_ops

    def _get_cross_device_ops(self, value: Any) -> Any:
        # TensorFlow has its own for int32, and then refuses int32 and other dtypes in one call.
        if self.tfdp_reduces_across_replicas and self._use_merge_call():
            return self.tfdp_cross_device_ops
        return super()._get_cross_device_ops(value)

    def _batch_reduce_to(self, reduce_op: Any, pairs: Sequence[Any], options: Any) -> list[Any]:
        # TensorFlow's hierarchical copy joins what it is given, whatever the dtypes.
        results: list[Any] = [None] * len(pairs)
        dtypes = [tfp.select_replica(0, value).dtype for value, _ in pairs]
        for dtype in dict.fromkeys(dtypes):
            places = [place for place, each in enumerate(dtypes) if each == dtype]
            sums = super()._batch_reduce_to(reduce_op, [pairs[place] for place in places], options)
            for place, value in zip(places, sums, strict=True):
                results[place] = value
        return results

    def _make_collective_ops_with_fallbacks(self) -> Any:
        # TensorFlow would choose NCCL for every set of physical GPUs.
        collective = super()._make_collective_ops_with_fallbacks()
        options = tf.distribute.experimental.CommunicationOptions(
            implementation=self.tfdp_implementation
        )
        self._communication_options = options
        if not isinstance(collective, tfp.CollectiveAllReduce):
            return collective
        own = tfp.CollectiveAllReduce(
            devices=self._devices,
            group_size=len(self._devices),
            options=options,
            collective_keys=self._collective_keys,
        )
        use_recycled_keys(own)
        return own


class MirroredStrategy(ExactStrategy, tf.distribute.MirroredStrategy):
    """`tf.distribute.MirroredStrategy` whose replicas train what one device would.

    Make one with `tfdp.strategy("mirrored", ...)`.
    """

    def __init__(
        self,
        devices: Sequence[str],
        reducer: Reducer,
        topology: Topology,
        bucket_bytes: int = DEFAULT_BUCKET_BYTES,
    ) -> None:
        self.tfdp_reducer = reducer
        # TensorFlow numbers the groups of collective ops from one base in every strategy. Two
        # strategies on different devices would then claim one group; this keeps them apart.
        self._collective_key_base = next(_key_bases)
        extended = _Extended(self, devices, reducer, topology, bucket_bytes)
        tfp.Strategy.__init__(self, extended)
