"""Where a process learns which workers there are: one environment a file, behind one interface."""

from __future__ import annotations

from tfdp.cluster.environments.base import Environment
from tfdp.cluster.environments.hosts_file import HostsFileEnvironment
from tfdp.cluster.environments.mpi import MpiEnvironment
from tfdp.cluster.environments.slurm import SlurmEnvironment
from tfdp.cluster.environments.tf_config import TfConfigEnvironment

ENVIRONMENTS: tuple[Environment, ...] = (
    TfConfigEnvironment(),
    HostsFileEnvironment(),
    MpiEnvironment(),
    SlurmEnvironment(),
)
"""In the order in which they are asked: what the user has set comes before what a scheduler sets,
and MPI before Slurm, as every rank of an ``mpiexec`` in a batch script inherits Slurm's rank 0."""

__all__ = [
    "ENVIRONMENTS",
    "Environment",
    "HostsFileEnvironment",
    "MpiEnvironment",
    "SlurmEnvironment",
    "TfConfigEnvironment",
]
