"""What every environment has to do, on the same table of cases.

Each has a maker that writes the variables of one worker in a group on given hosts, as that launcher
sets them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tfdp.cluster import ClusterInfo
from tfdp.cluster.address import problem_with_address
from tfdp.cluster.detect import detect_cluster, detect_environment, export_tf_config
from tfdp.cluster.environments import (
    ENVIRONMENTS,
    Environment,
    HostsFileEnvironment,
    MpiEnvironment,
    SlurmEnvironment,
    TfConfigEnvironment,
)
from tfdp.cluster.tf_config import read_tf_config
from tfdp.errors import ClusterError

Maker = Callable[[Path, Sequence[str], int], dict[str, str]]


def tf_config(folder: Path, hosts: Sequence[str], index: int) -> dict[str, str]:
    workers = [f"{host}:{2222 + number}" for number, host in enumerate(hosts)]
    task = {"type": "worker", "index": index}
    return {"TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": task})}


def slurm(folder: Path, hosts: Sequence[str], index: int) -> dict[str, str]:
    nodes = list(dict.fromkeys(hosts))
    return {
        "SLURM_JOB_ID": "77",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(index),
        "SLURM_NTASKS": str(len(hosts)),
        "SLURM_STEP_NUM_TASKS": str(len(hosts)),
        "SLURM_NODEID": str(nodes.index(hosts[index])),
        "SLURM_STEP_NODELIST": ",".join(nodes),
        "SLURM_JOB_NODELIST": ",".join([*nodes, "another"]),
        "SLURM_STEP_TASKS_PER_NODE": ",".join(str(hosts.count(node)) for node in nodes),
    }


def hosts_file(folder: Path, hosts: Sequence[str], index: int) -> dict[str, str]:
    path = folder / "hosts"
    path.write_text("# the workers\n\n" + "\n".join(hosts) + "\n")
    return {"TFDP_HOSTS_FILE": str(path), "TFDP_WORKER_INDEX": str(index)}


def open_mpi(folder: Path, hosts: Sequence[str], index: int) -> dict[str, str]:
    return {
        "PMIX_NAMESPACE": "prterun-a-77@1",
        "OMPI_COMM_WORLD_RANK": str(index),
        "OMPI_COMM_WORLD_SIZE": str(len(hosts)),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(hosts.count(hosts[index])),
        "TFDP_HOSTS_FILE": hosts_file(folder, hosts, index)["TFDP_HOSTS_FILE"],
    }


def mpich(folder: Path, hosts: Sequence[str], index: int) -> dict[str, str]:
    return {
        "PMI_RANK": str(index),
        "PMI_SIZE": str(len(hosts)),
        "MPI_LOCALNRANKS": str(hosts.count(hosts[index])),
        "PBS_NODEFILE": hosts_file(folder, hosts, index)["TFDP_HOSTS_FILE"],
    }


@dataclass(frozen=True)
class Kind:
    environment: type[Environment]
    make: Maker
    needed: tuple[str, ...]


KINDS = {
    "tf_config": Kind(TfConfigEnvironment, tf_config, ()),
    "slurm": Kind(SlurmEnvironment, slurm, ("SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST")),
    "hosts_file": Kind(HostsFileEnvironment, hosts_file, ()),
    "open_mpi": Kind(MpiEnvironment, open_mpi, ("OMPI_COMM_WORLD_SIZE",)),
    "mpich": Kind(MpiEnvironment, mpich, ("PMI_SIZE",)),
}

GROUPS: list[tuple[str, ...]] = [
    ("a", "b"),
    ("a", "a", "b"),
    ("n1", "n1", "n2", "n2"),
    ("10.0.0.1", "10.0.0.2", "10.0.0.3"),
]


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def test_every_environment_is_in_the_table() -> None:
    assert {type(each) for each in ENVIRONMENTS} == {each.environment for each in KINDS.values()}


def test_a_lone_process() -> None:
    assert detect_cluster({"PATH": "/bin", "SLURM_JOB_ID": "7"}) is None


@pytest.mark.parametrize("hosts", GROUPS)
def test_all_workers_come_to_one_list(kind: Kind, hosts: tuple[str, ...], tmp_path: Path) -> None:
    found = [detect_cluster(kind.make(tmp_path, hosts, index)) for index in range(len(hosts))]
    assert found[0] is not None
    workers = found[0].workers
    assert found == [ClusterInfo(workers, index, "worker") for index in range(len(hosts))]
    assert [worker.rpartition(":")[0] for worker in workers] == list(hosts)
    assert len(set(workers)) == len(hosts)
    assert [problem_with_address(worker) for worker in workers] == [None] * len(hosts)


def test_it_is_the_environment_that_is_detected(kind: Kind, tmp_path: Path) -> None:
    environment = detect_environment(kind.make(tmp_path, ("a", "b"), 1))
    assert type(environment) is kind.environment
    assert environment.name in {"TF_CONFIG", "Slurm", "MPI", "hosts file"}


def test_tf_config_comes_first(kind: Kind, tmp_path: Path) -> None:
    environ = kind.make(tmp_path, ("a", "b"), 1) | tf_config(tmp_path, ("c", "d", "e"), 2)
    assert detect_cluster(environ) == ClusterInfo(("c:2222", "d:2223", "e:2224"), 2, "worker")


def test_tf_config_is_made_for_tensorflow(kind: Kind, tmp_path: Path) -> None:
    environ = kind.make(tmp_path, ("a", "b"), 1)
    cluster = export_tf_config(environ)
    assert cluster is not None
    assert read_tf_config(environ) == cluster


def test_a_variable_that_is_missing_is_named(kind: Kind, tmp_path: Path) -> None:
    for name in kind.needed:
        environ = kind.make(tmp_path, ("a", "a", "b"), 1)
        for also in (name, "SLURM_NTASKS", "SLURM_JOB_NODELIST"):
            environ.pop(also, None)
        with pytest.raises(ClusterError, match=name.replace("STEP_NUM_TASKS", "NTASKS")):
            detect_cluster(environ)


def test_the_port_can_be_set(kind: Kind, tmp_path: Path) -> None:
    environ = kind.make(tmp_path, ("a", "a", "b"), 0) | {"TFDP_PORT": "4000"}
    cluster = detect_cluster(environ)
    assert cluster is not None
    if kind.environment is not TfConfigEnvironment:  # which has ports of its own
        assert cluster.workers == ("a:4000", "a:4001", "b:4000")


@pytest.mark.parametrize("port", ["x", "0", "70000"])
def test_a_port_that_is_none(kind: Kind, port: str, tmp_path: Path) -> None:
    if kind.environment is TfConfigEnvironment:
        return
    with pytest.raises(ClusterError, match="TFDP_PORT must be"):
        detect_cluster(kind.make(tmp_path, ("a", "b"), 0) | {"TFDP_PORT": port})
