"""TensorFlow's ring all-reduce: 2 (N-1)/N of the bytes per device, whatever N."""

from __future__ import annotations

from tfdp.collectives.base import Reducer, Topology


class Ring(Reducer):
    """Reduce-scatter and all-gather around a ring of all replicas (Patarasuk and Yuan, 2009)."""

    name = "ring"
    summary = "TensorFlow's ring all-reduce, over local devices or (gRPC) between workers"

    def refusal(self, topology: Topology) -> str | None:
        del topology
        return None
