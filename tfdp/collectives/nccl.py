"""NCCL all-reduce between physical GPUs."""

from __future__ import annotations

from tfdp.collectives.base import Implementation, Reducer, Topology


class Nccl(Reducer):
    """NVIDIA's collective library, inside one host and between hosts."""

    name = "nccl"
    summary = "NVIDIA NCCL between physical GPUs, one host or many"

    def refusal(self, topology: Topology) -> str | None:
        if topology.device_type != "GPU":
            return "NCCL reduces between GPUs, and these replicas are on the CPU"
        if topology.virtual_gpus:
            return "NCCL needs one physical GPU for each replica, and these GPUs are virtual"
        return None

    def implementation(self, topology: Topology) -> Implementation:
        return Implementation.NCCL
