"""MPI: each rank that ``mpiexec`` starts is a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tfdp.cluster.environments.base import (
    Environment,
    addresses,
    base_port,
    integer,
    rank_and_size,
)
from tfdp.cluster.environments.hosts_file import VARIABLE, read_hosts_file
from tfdp.cluster.tf_config import ClusterInfo
from tfdp.errors import ClusterError


@dataclass(frozen=True)
class _Names:
    """Variables of one kind of MPI; `jobs` name the job where it has one."""

    rank: str
    size: str
    local_size: str
    jobs: tuple[str, ...]


_OPEN_MPI = _Names(
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
)
_HYDRA = _Names("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", ("PMI_JOBID",))
_KINDS = (_OPEN_MPI, _HYDRA)


class MpiEnvironment(Environment):
    """A rank of Open MPI, MPICH, Intel MPI or another that sets ``PMI_RANK``.

    MPI tells a rank how many there are, but not where: if all are on this host that is enough,
    else the hosts come from the hosts file that ``TFDP_HOSTS_FILE`` or ``PBS_NODEFILE`` names.
    """

    name: ClassVar[str] = "MPI"

    def is_present(self, environ: Mapping[str, str]) -> bool:
        names = _names(environ)
        if names is None or environ.get(names.size) == "1":
            return False
        # srun sets both: there Slurm knows more than PMI does.
        same_rank = environ.get("SLURM_PROCID") == environ.get(names.rank)
        by_srun = names is _HYDRA and same_rank and names.local_size not in environ
        return not by_srun

    def read(self, environ: Mapping[str, str]) -> ClusterInfo:
        names = _names(environ)
        if names is None:
            raise ClusterError("this process is no rank of an MPI program")
        rank, size = rank_and_size(environ, names.rank, names.size)
        if names.local_size in environ and integer(environ, names.local_size, least=1) == size:
            hosts = ["localhost"] * size
        else:
            hosts = _hosts_from_file(environ, size)
        job = next((environ[name] for name in names.jobs if name in environ), names.rank)
        return ClusterInfo(addresses(hosts, base_port(environ, job)), rank, "worker")


def _names(environ: Mapping[str, str]) -> _Names | None:
    return next((names for names in _KINDS if names.rank in environ), None)


def _hosts_from_file(environ: Mapping[str, str], size: int) -> list[str]:
    for name in (VARIABLE, "PBS_NODEFILE"):
        if environ.get(name):
            hosts = [entry.host for entry in read_hosts_file(environ[name])]
            if len(hosts) != size:
                raise ClusterError(
                    f"{environ[name]} ({name}) has places for {len(hosts)} workers, and MPI "
                    f"has started {size}"
                )
            return hosts
    raise ClusterError(
        f"MPI has started {size} ranks on several hosts, and does not tell their names",
        hint=f"Set {VARIABLE} to a file with the host of each rank, one a line, in the order of "
        "the ranks; or set TF_CONFIG.",
    )
