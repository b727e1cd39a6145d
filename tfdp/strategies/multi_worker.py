"""Replicas in several processes, on one machine or many."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfdp.cluster.tf_config import ClusterInfo
from tfdp.collectives import Reducer, Topology
from tfdp.collectives.between_workers import WorkerReduction
from tfdp.collectives.buckets import DEFAULT_BUCKET_BYTES
from tfdp.collectives.compression import Compression, compress
from tfdp.errors import ClusterError
from tfdp.strategies.exact import ExactExtended, ExactStrategy
from tfdp.strategies.keras_compat import tensorflow_parts as tfp
from tfdp.strategies.keras_compat.launchers import use_recycled_keys


class _Extended(ExactExtended, tfp.CollectiveExtended):
    def __init__(
        self,
        strategy: Any,
        devices: Sequence[str],
        reducer: Reducer,
        topology: Topology,
        cluster: ClusterInfo,
        compression: Compression,
        bucket_bytes: int,
    ) -> None:
        self._tfdp_local_devices = tuple(devices)
        self._tfdp_topology = topology
        self._tfdp_cluster = cluster
        self._tfdp_compression = compression
        self._tfdp_reductions: dict[str, WorkerReduction | None] = {}
        self.tfdp_use(reducer, bucket_bytes)
        options = tf.distribute.experimental.CommunicationOptions(
            implementation=self.tfdp_implementation
        )
        tfp.CollectiveExtended.__init__(
            self,
            strategy,
            cluster_resolver=tf.distribute.cluster_resolver.SimpleClusterResolver(
                tf.train.ClusterSpec({"worker": list(cluster.workers)}),
                task_type="worker",
                task_id=cluster.index,
                rpc_layer="grpc",
            ),
            communication_options=options,
        )
        for collective_ops in (self._cross_device_ops, self._host_cross_device_ops):
            use_recycled_keys(collective_ops)

    def tfdp_use(self, reducer: Reducer, bucket_bytes: int) -> None:
        """What is traced from now on is reduced so.

        Raises:
            ClusterError: the reducer numbers the workers in another order.
        """
        self.tfdp_bucket_bytes = bucket_bytes
        self.tfdp_implementation = reducer.implementation(self._tfdp_topology)
        if reducer.name not in self._tfdp_reductions:
            made = reducer.worker_reduction(self._tfdp_topology)
            _check_rank(made, self._tfdp_cluster)
            self._tfdp_reductions[reducer.name] = made
        self.tfdp_worker_reduction = self._tfdp_reductions[reducer.name]
        self.tfdp_gradient_reduction = compress(self.tfdp_worker_reduction, self._tfdp_compression)

    def tfdp_collective_ops(self) -> Any:
        return self._cross_device_ops

    def _initialize_local_devices(self, cluster_resolver: Any, worker_device: str) -> Any:
        # TensorFlow takes all GPUs, or one CPU device however many logical ones there are.
        del cluster_resolver
        names = tuple(f"{worker_device}/device:{name}" for name in self._tfdp_local_devices)
        return names, self._tfdp_local_devices[0].split(":")[0]


def _check_rank(reduction: WorkerReduction | None, cluster: ClusterInfo) -> None:
    """Raises ClusterError where the reduction numbers the workers in another order."""
    rank = None if reduction is None else reduction.rank
    if rank not in (None, cluster.index):
        raise ClusterError(
            f"this process is worker {cluster.index} of the cluster and rank {rank} of MPI; the "
            "two have to be the same.",
            hint="Leave TF_CONFIG unset under mpiexec: then the ranks number the workers.",
        )


class MultiWorkerStrategy(ExactStrategy, tf.distribute.MultiWorkerMirroredStrategy):
    """`tf.distribute.MultiWorkerMirroredStrategy` whose replicas train what one device would.

    Make one with `tfdp.strategy("multi_worker", ...)`.
    """

    def __init__(
        self,
        devices: Sequence[str],
        reducer: Reducer,
        topology: Topology,
        cluster: ClusterInfo,
        compression: Compression | None = None,
        bucket_bytes: int = DEFAULT_BUCKET_BYTES,
    ) -> None:
        self.tfdp_reducer = reducer
        wanted = Compression() if compression is None else compression
        extended = _Extended(self, devices, reducer, topology, cluster, wanted, bucket_bytes)
        tfp.Strategy.__init__(self, extended)
        self._agree_on_seed()

    def tfdp_gather_from_workers(self, value: int) -> list[int]:
        worker, workers, _ = self._tfdp_place()
        mine = tf.one_hot(worker, workers, on_value=value, off_value=0, dtype=tf.int32)
        return [int(each) for each in self.reduce("SUM", mine, axis=None).numpy()]

    def tfdp_gather_numbers(self, numbers: Sequence[int]) -> list[list[int]]:
        worker, workers, _ = self._tfdp_place()
        with tf.device("CPU:0"):
            mine = tf.constant([list(numbers)], tf.int64)
            rows = tf.pad(mine, [[worker, workers - 1 - worker], [0, 0]])
        table = self.reduce("SUM", rows, axis=None).numpy()
        return [[int(number) for number in row] for row in table]

    def _agree_on_seed(self) -> None:
        """Gives TensorFlow's unseeded operations the same seed on all workers.

        Every worker reads all batches and uses its share, so an unseeded `Dataset.shuffle` has to
        shuffle alike everywhere. A seed that the program has set stays.
        """
        chosen = self.tfdp_gather_from_workers(random.SystemRandom().randrange(1, 2**31 - 1))[0]
        if tfp.global_seed() is None:
            tf.random.set_seed(chosen)
