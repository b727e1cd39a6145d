"""Slurm: each task of an ``srun`` step is a worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tfdp.cluster.environments.base import (
    Environment,
    addresses,
    base_port,
    integer,
    rank_and_size,
)
from tfdp.cluster.environments.hostlist import expand_counts, expand_hosts
from tfdp.cluster.tf_config import ClusterInfo
from tfdp.errors import ClusterError

_BATCH_STEPS = ("batch", "extern", "interactive", "4294967291", "4294967292", "4294967290")
"""Steps that are no ``srun``: a batch script is one process, however many tasks it asks for."""


class SlurmEnvironment(Environment):
    """A task of a step with two tasks or more.

    The list of hosts is ``SLURM_STEP_NODELIST``, else ``SLURM_JOB_NODELIST``; tasks are taken to
    fill one node after the other (``--distribution=block``), which ``SLURM_NODEID`` confirms.
    """

    name: ClassVar[str] = "Slurm"

    def is_present(self, environ: Mapping[str, str]) -> bool:
        if "SLURM_PROCID" not in environ or environ.get("SLURM_STEP_ID") in _BATCH_STEPS:
            return False
        return environ.get("SLURM_STEP_ID") is not None and environ.get(_size_name(environ)) != "1"

    def read(self, environ: Mapping[str, str]) -> ClusterInfo:
        rank, size = rank_and_size(environ, "SLURM_PROCID", _size_name(environ))
        hosts = _hosts_of_ranks(environ, size)
        if "SLURM_NODEID" in environ:
            _check_block(environ, hosts, rank)
        job = f"{environ.get('SLURM_JOB_ID', '')}.{environ.get('SLURM_STEP_ID', '')}"
        return ClusterInfo(addresses(hosts, base_port(environ, job)), rank, "worker")


def _size_name(environ: Mapping[str, str]) -> str:
    return "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environ else "SLURM_NTASKS"


def _first_set(environ: Mapping[str, str], *names: str) -> str:
    for name in names:
        if environ.get(name, "").strip():
            return name
    raise ClusterError(
        f"Slurm has set SLURM_PROCID, but neither of {' and '.join(names)}",
        hint="Start the workers with srun, or set TF_CONFIG yourself.",
    )


def _hosts_of_ranks(environ: Mapping[str, str], size: int) -> list[str]:
    name = _first_set(environ, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")
    nodes = expand_hosts(environ[name], name=name)
    if len(nodes) == size:
        return nodes
    if len(nodes) == 1:
        return nodes * size
    name = _first_set(environ, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
    counts = expand_counts(environ[name], name=name)
    if len(counts) != len(nodes) or sum(counts) != size:
        raise ClusterError(
            f"{name}={environ[name]} does not fit {len(nodes)} nodes and {size} tasks",
            hint="Start the workers with srun, or set TF_CONFIG yourself.",
        )
    return [node for node, count in zip(nodes, counts, strict=True) for _ in range(count)]


def _check_block(environ: Mapping[str, str], hosts: list[str], rank: int) -> None:
    nodes = list(dict.fromkeys(hosts))
    node = integer(environ, "SLURM_NODEID")
    if node != nodes.index(hosts[rank]):
        raise ClusterError(
            f"Task {rank} runs on node {node} of the step, where consecutive tasks would place it "
            f"on node {nodes.index(hosts[rank])} ({hosts[rank]})",
            hint="Start the workers with srun --distribution=block.",
        )
