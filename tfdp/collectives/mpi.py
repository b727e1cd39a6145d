"""MPI all-reduce between workers, through host memory.

Workers that all run on one machine add up in memory that they share (`shared_memory`); else MPI's
own all-reduce sends between them.

Each reduction is an operation in TensorFlow's graph that calls MPI and gives the interpreter back
while it waits, so the backward pass goes on meanwhile. MPI matches collectives by their order:
within a graph a token is passed from each call to the next.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfdp.collectives.agreement import TOLD_BYTES, different, told
from tfdp.collectives.base import Reducer, Topology
from tfdp.collectives.between_workers import WorkerReduction
from tfdp.collectives.host_buffers import HostBuffers
from tfdp.collectives.shared_memory import SharedMemory, has_room, is_short_float
from tfdp.errors import ClusterError, UnsupportedError

_EXTRA = 'pip install "tfdp[mpi]" brings mpi4py and an MPI'


class Mpi(Reducer):
    """MPI between the workers; inside a worker the replicas' values are summed first."""

    name = "mpi"
    summary = "MPI between workers through host memory (extra tfdp[mpi])"

    def refusal(self, topology: Topology) -> str | None:
        if topology.workers == 1:
            return "MPI reduces between several workers"
        try:
            from mpi4py import MPI
        except ImportError as error:
            return f"MPI cannot be loaded here ({error}); {_EXTRA}"
        if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            return "this MPI was not initialised with thread level MULTIPLE"
        size = MPI.COMM_WORLD.Get_size()
        if size != topology.workers:
            return (
                f"MPI runs {size} process{'es' if size > 1 else ''} and the cluster has "
                f"{topology.workers} workers; start the program with "
                f"mpiexec -n {topology.workers}, or by tfdp launch --mpi"
            )
        return None

    def worker_reduction(self, topology: Topology) -> WorkerReduction:
        del topology
        return MpiReduction()


class MpiReduction(WorkerReduction):
    """Collectives on a communicator of our own.

    Args:
        share_memory: add up in shared memory where all workers run on one machine.
    """

    def __init__(self, share_memory: bool = True) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._world = MPI.COMM_WORLD.Dup()
        self._memory = _shared_memory(self._world, MPI) if share_memory else None
        self._tokens: weakref.WeakKeyDictionary[Any, tf.Tensor] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self._buffers = HostBuffers()

    @property
    def rank(self) -> int:
        """This process's rank; it has to be its worker index."""
        return int(self._world.Get_rank())

    @property
    def shares_memory(self) -> bool:
        """Whether the workers add up in memory that they share."""
        return self._memory is not None

    def sum(self, vector: tf.Tensor, when: tf.Tensor | None = None) -> tf.Tensor:
        return self.sum_all([vector], when)[0]

    def sum_all(
        self, vectors: Sequence[tf.Tensor], when: tf.Tensor | None = None
    ) -> list[tf.Tensor]:
        if self._memory is None and len(vectors) > 1:
            return super().sum_all(vectors, when)
        condition = tf.constant(True) if when is None else when
        dtypes = [vector.dtype for vector in vectors]
        summed = self._call(self._sum_arrays, [condition, *vectors], dtypes)
        for vector, total in zip(vectors, summed, strict=True):
            total.set_shape(vector.shape)
        return summed

    def gather(self, rows: tf.Tensor) -> tf.Tensor:
        (gathered,) = self._call(self._gather_array, [rows], [rows.dtype])
        gathered.set_shape([None, *rows.shape[1:]])
        return gathered

    def _call(self, function: Any, inputs: list[tf.Tensor], dtypes: list[tf.DType]) -> Any:
        """Runs `function` on arrays, after all calls that stand before it in the program."""
        if tf.executing_eagerly():
            return [tf.constant(each) for each in function(*[value.numpy() for value in inputs])]
        graph = tf.compat.v1.get_default_graph()
        if getattr(graph, "is_control_flow_graph", False):
            raise UnsupportedError(
                'cross_device_ops="mpi" cannot reduce inside a branch (tf.cond, tf.while_loop): '
                "MPI needs one order of reductions on all workers.",
                hint='Use cross_device_ops="ring", or move the reduction out of the branch.',
            )
        token = self._tokens.get(graph)
        if token is None:
            token = tf.constant(0, tf.int8)

        def ordered(token: np.ndarray, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
            # An exception here becomes a tf.errors.OpError with its text.
            return token, *function(*arrays)

        with tf.device("/device:CPU:0"):
            token, *results = tf.numpy_function(ordered, [token, *inputs], [tf.int8, *dtypes])
        self._tokens[graph] = token
        return results

    def _sum_arrays(self, when: np.ndarray, *vectors: np.ndarray) -> Sequence[np.ndarray]:
        size = sum(vector.size for vector in vectors)
        if not when or size == 0:
            return vectors
        what = f"a sum of {size} {vectors[0].dtype} numbers"
        with self._lock:
            if self._memory is None:
                (vector,) = vectors
                self._check_same(what)
                return [self._sum_sent(np.ascontiguousarray(vector))]
            totals = [self._buffers.empty(vector.size, vector.dtype) for vector in vectors]
            _refuse(self._memory.sum(vectors, totals, what))
            return totals

    def _sum_sent(self, vector: np.ndarray) -> np.ndarray:
        if is_short_float(vector):
            return self._sum_short_floats(vector)
        total = self._buffers.empty(vector.size, vector.dtype)
        self._world.Allreduce(vector, total, op=self._mpi.SUM)
        return total

    def _check_same(self, what: str) -> None:
        """Compares what the workers are about to do: MPI itself would wait for ever, or mix it up.

        Costs some microseconds on one host, and a round trip between hosts.

        Raises:
            ClusterError: on every worker, where they differ.
        """
        if self._memory is not None:
            _refuse(self._memory.agree(what))
            return
        by_workers = np.empty((self._world.Get_size(), TOLD_BYTES), np.uint8)
        self._world.Allgather(told(what), by_workers)
        _refuse(different(list(by_workers)))

    def _sum_short_floats(self, vector: np.ndarray) -> np.ndarray:
        """Sums 16-bit floats, which MPI cannot add, in float32: two roundings, whatever N.

        Each worker adds up one part of the vector and sends the sums to all: 2 (N-1)/N of the
        bytes, as a ring.
        """
        workers = self._world.Get_size()
        part = -(-vector.size // workers)
        padded = self._buffers.empty(workers * part, vector.dtype)
        padded[: vector.size] = vector
        padded[vector.size :] = 0
        parts = self._buffers.empty(padded.size, padded.dtype)
        self._world.Alltoall(_movable(padded), _movable(parts))
        with np.errstate(over="ignore", invalid="ignore"):  # infinite, as in TensorFlow
            total = parts.reshape(workers, part).astype(np.float32).sum(axis=0)
            total = total.astype(vector.dtype)
        self._world.Allgather(_movable(total), _movable(padded))
        return padded[: vector.size]

    def _gather_array(self, rows: np.ndarray) -> Sequence[np.ndarray]:
        mine = _movable(np.ascontiguousarray(rows))
        with self._lock:
            self._check_same(f"rows of shape {mine.shape[1:]} of {rows.dtype} numbers to join")
            counts = np.zeros(self._world.Get_size(), np.int64)
            self._world.Allgather(np.array([mine.shape[0]], np.int64), counts)
            joined = np.empty((int(counts.sum()), *mine.shape[1:]), mine.dtype)
            row = int(np.prod(mine.shape[1:], dtype=np.int64))
            sizes = [int(count) * row for count in counts]
            self._world.Allgatherv(mine, [joined, sizes])
        return [joined.view(rows.dtype)]


def _shared_memory(world: Any, mpi: Any) -> SharedMemory | None:
    """Memory that all workers share; None where they do not run on one machine, or it is full."""
    node = world.Split_type(mpi.COMM_TYPE_SHARED)
    workers = node.Get_size()
    possible = 1 < workers == world.Get_size() and has_room(workers)
    if not world.allreduce(possible, op=mpi.LAND):
        return None
    memory = None
    with contextlib.suppress(mpi.Exception):
        memory = SharedMemory(node, mpi)
    all_have_it = world.allreduce(memory is not None, op=mpi.LAND)
    return memory if all_have_it else None


def _refuse(disagreement: Sequence[str] | None) -> None:
    """Raises ClusterError where the workers are about to do different things."""
    if disagreement is None:
        return
    said = "; ".join(f"worker {worker}: {each}" for worker, each in enumerate(disagreement))
    raise ClusterError(
        f"the workers came to different reductions ({said}).",
        hint="All workers have to run the same program on the same model, in one order.",
    )


def _movable(array: np.ndarray) -> np.ndarray:
    """The same memory in a dtype that MPI has: 16-bit floats as integers."""
    return array.view(np.uint16) if is_short_float(array) else array
