"""Reduction inside each worker first, then between the workers once for each of them."""

from __future__ import annotations

from tfdp.collectives.base import Reducer, Topology
from tfdp.collectives.between_workers import WorkerReduction
from tfdp.collectives.collective import CollectiveReduction


class TwoLevel(Reducer):
    """Adds the local replicas' values in host memory, sums over the workers, and copies back.

    A flat ring over N workers with D replicas each sends every byte between replicas; here a
    worker sends 2 (N-1)/N of the bytes once, whatever D. Between the workers it is TensorFlow's
    ring over gRPC. `mpi` has the same two levels with MPI between the workers.
    """

    name = "two_level"
    summary = "sum inside each worker, TensorFlow's ring once for each worker, copy back"

    def refusal(self, topology: Topology) -> str | None:
        if topology.workers == 1:
            return "two levels are inside and between several workers, and there is one"
        return None

    def worker_reduction(self, topology: Topology) -> WorkerReduction:
        return CollectiveReduction(topology.workers)
