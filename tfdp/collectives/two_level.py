"""Reduction inside each worker first, then between the workers once for each of them."""

from __future__ import annotations

import os

from tfdp.collectives.base import Reducer, Topology
from tfdp.collectives.between_workers import WorkerReduction
from tfdp.collectives.collective import CollectiveReduction
from tfdp.collectives.mpi import Mpi, MpiReduction
from tfdp.collectives.nccl import Nccl
from tfdp.config.names import BETWEEN
from tfdp.errors import StrategyError

AUTO = "auto"
_GPU = "/device:GPU:0"
_RANK_VARIABLES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK")


class TwoLevel(Reducer):
    """Adds the local replicas' values in host memory, sums over the workers, and copies back.

    A flat ring over N workers with D replicas each sends every byte between replicas; here a
    worker sends 2 (N-1)/N of the bytes once, whatever D.

    Args:
        between: what sums between the workers: "ring", TensorFlow's over gRPC; "mpi"; "nccl",
            between the first GPU of each worker (never run: no machine with GPUs was at hand);
            "auto", mpi where this process is a rank of an MPI that fits, else ring.

    Raises:
        StrategyError: there is no such way between the workers.
    """

    name = "two_level"
    summary = "sum inside each worker, once between workers (TensorFlow's ring or MPI), copy back"

    def __init__(self, between: str = AUTO) -> None:
        if between not in BETWEEN:
            raise StrategyError(
                f"between={between!r} is not known. Known: {', '.join(BETWEEN)}.",
            )
        self._between = between

    def refusal(self, topology: Topology) -> str | None:
        if topology.workers == 1:
            return "two levels are inside and between several workers, and there is one"
        if self._between == "mpi":
            return Mpi().refusal(topology)
        return Nccl().refusal(topology) if self._between == "nccl" else None

    def between(self, topology: Topology) -> str:
        """What sums between the workers: "ring", "mpi" or "nccl"."""
        if self._between != AUTO:
            return self._between
        is_rank = any(name in os.environ for name in _RANK_VARIABLES)
        return "mpi" if is_rank and Mpi().refusal(topology) is None else "ring"

    def describe(self, topology: Topology) -> str:
        return f"{self.name} with {self.between(topology)} between workers"

    def worker_reduction(self, topology: Topology) -> WorkerReduction:
        between = self.between(topology)
        if between == "mpi":
            return MpiReduction()
        if between == "nccl":
            return CollectiveReduction(topology.workers, hint="nccl", device=_GPU)
        return CollectiveReduction(topology.workers)
