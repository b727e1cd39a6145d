"""What is particular to Slurm, MPI and hosts files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfdp.cluster import ClusterInfo
from tfdp.cluster.detect import detect_cluster, detect_environment
from tfdp.cluster.environments import HostsFileEnvironment
from tfdp.cluster.environments.hostlist import expand_counts, expand_hosts
from tfdp.cluster.environments.hosts_file import (
    HostEntry,
    local_indexes,
    local_names,
    read_hosts_file,
)
from tfdp.errors import ClusterError


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("login", ["login"]),
        ("a,b", ["a", "b"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[1,3-4],gpu-[01,7]", ["n1", "n3", "n4", "gpu-01", "gpu-7"]),
        ("r[1-2]n[1-2].x", ["r1n1.x", "r1n2.x", "r2n1.x", "r2n2.x"]),
        ("n[5]", ["n5"]),
        ("n[099-100]", ["n099", "n100"]),
    ],
)
def test_hosts(text: str, hosts: list[str]) -> None:
    assert expand_hosts(text, name="L") == hosts


@pytest.mark.parametrize(
    "text",
    ["", " ", "n[", "n]", "n[]", "n[1-]", "n[3-1]", "n[a-b]", "n[[1]]", "a,,b", "a b", "n[1]]"],
)
def test_hosts_malformed(text: str) -> None:
    with pytest.raises(ClusterError, match="L is malformed"):
        expand_hosts(text, name="L")


@pytest.mark.parametrize("text", ["n[0-999999999]", "n[0-999]m[0-999]", "n[1-100000],m[1-9]"])
def test_a_list_that_is_too_long_does_not_fill_the_memory(text: str) -> None:
    with pytest.raises(ClusterError, match="L has more than 100000 items"):
        expand_hosts(text, name="L")


def test_counts() -> None:
    assert expand_counts("2(x3),1", name="L") == [2, 2, 2, 1]


@pytest.mark.parametrize("text", ["", "x", "2(x)", "2,", "-1"])
def test_counts_malformed(text: str) -> None:
    with pytest.raises(ClusterError, match="L is malformed"):
        expand_counts(text, name="L")


SLURM = {
    "SLURM_JOB_ID": "1",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "1",
    "SLURM_NTASKS": "4",
    "SLURM_NODEID": "0",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_TASKS_PER_NODE": "2(x2)",
}


def test_slurm_fills_node_after_node() -> None:
    cluster = detect_cluster(SLURM)
    assert cluster is not None
    assert [w.rpartition(":")[0] for w in cluster.workers] == ["n1", "n1", "n2", "n2"]
    assert cluster.workers_on_host == 2


def test_slurm_cyclic_distribution_is_refused() -> None:
    with pytest.raises(ClusterError, match="Task 1 runs on node 1 of the step") as caught:
        detect_cluster(SLURM | {"SLURM_NODEID": "1"})
    assert caught.value.hint == "Start the workers with srun --distribution=block."


def test_slurm_counts_that_do_not_fit() -> None:
    with pytest.raises(ClusterError, match=r"SLURM_TASKS_PER_NODE=2 does not fit 2 nodes and 4"):
        detect_cluster(SLURM | {"SLURM_TASKS_PER_NODE": "2"})


@pytest.mark.parametrize("changes", [{"SLURM_STEP_ID": "4294967290"}, {"SLURM_NTASKS": "1"}])
def test_slurm_a_shell_or_a_batch_script_is_no_worker(changes: dict[str, str]) -> None:
    assert detect_cluster(SLURM | changes) is None


def test_two_slurm_steps_use_different_ports() -> None:
    first, second = detect_cluster(SLURM), detect_cluster(SLURM | {"SLURM_STEP_ID": "1"})
    assert first is not None
    assert second is not None
    assert not set(first.workers) & set(second.workers)


OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_SIZE": "3",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "3",
}


def test_mpi_on_one_host_needs_no_file() -> None:
    cluster = detect_cluster(OPEN_MPI | {"TFDP_PORT": "5000"})
    assert cluster == ClusterInfo(
        ("localhost:5000", "localhost:5001", "localhost:5002"), 2, "worker"
    )


def test_mpi_on_several_hosts_says_what_is_missing() -> None:
    with pytest.raises(ClusterError, match="does not tell their names") as caught:
        detect_cluster(OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "1"})
    assert "TFDP_HOSTS_FILE" in str(caught.value.hint)


def test_mpi_with_a_file_of_another_length(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("a\nb\n")
    environ = {"OMPI_COMM_WORLD_LOCAL_SIZE": "1", "TFDP_HOSTS_FILE": str(path)}
    with pytest.raises(ClusterError, match=r"has places for 2 workers, and MPI has started 3"):
        detect_cluster(OPEN_MPI | environ)


def test_mpiexec_in_a_batch_script_comes_before_slurm() -> None:
    environment = detect_environment(SLURM | {"SLURM_PROCID": "0"} | OPEN_MPI)
    assert environment is not None
    assert environment.name == "MPI"


def test_srun_that_also_speaks_pmi_is_slurm() -> None:
    environment = detect_environment(SLURM | {"PMI_RANK": "1", "PMI_SIZE": "4"})
    assert environment is not None
    assert environment.name == "Slurm"


def test_a_rank_that_is_too_large() -> None:
    with pytest.raises(ClusterError, match="ranks go from 0 to 2"):
        detect_cluster(OPEN_MPI | {"OMPI_COMM_WORLD_RANK": "3"})


def hosts(folder: Path, text: str) -> Path:
    path = folder / "hosts"
    path.write_text(text)
    return path


def test_hosts_file(tmp_path: Path) -> None:
    text = "a # first\n\nb:2222\n  c slots=2\n[::1]\n[::1]:7\n"
    assert read_hosts_file(hosts(tmp_path, text)) == [
        HostEntry("a", None),
        HostEntry("b", 2222),
        HostEntry("c", None),
        HostEntry("c", None),
        HostEntry("[::1]", None),
        HostEntry("[::1]", 7),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "names no host"),
        ("# a\n", "names no host"),
        ("a b\n", r"hosts:1: must be host, host:port or host slots=N"),
        ("a\nb slots=0\n", "hosts:2: slots must be at least 1"),
        ("a:99999\n", "hosts:1: the port must be from 1 to 65535"),
        ("a:1 slots=2\n", "hosts:1: 2 workers cannot have one port"),
        ("a;rm\n", "hosts:1: .* is no host name"),
    ],
)
def test_hosts_file_malformed(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=problem):
        read_hosts_file(hosts(tmp_path, text))


def test_hosts_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="cannot be read: No such file"):
        read_hosts_file(tmp_path / "none")
    with pytest.raises(ClusterError, match="cannot be read: Is a directory"):
        read_hosts_file(tmp_path)


def test_the_one_line_with_this_machines_name_is_taken(tmp_path: Path) -> None:
    environment = HostsFileEnvironment(names=lambda: {"b", "10.0.0.2"})
    environ = {"TFDP_HOSTS_FILE": str(hosts(tmp_path, "a:1\nB:2\nc:3\n"))}
    assert environment.read(environ) == ClusterInfo(("a:1", "B:2", "c:3"), 1, "worker")


@pytest.mark.parametrize(("text", "count"), [("a\nc\n", 0), ("b\nb\n", 2)])
def test_no_line_or_several_lines_with_this_machines_name(
    text: str, count: int, tmp_path: Path
) -> None:
    environment = HostsFileEnvironment(names=lambda: {"b"})
    with pytest.raises(ClusterError, match=f"names {count} workers on this machine"):
        environment.read({"TFDP_HOSTS_FILE": str(hosts(tmp_path, text))})


def test_an_address_twice(tmp_path: Path) -> None:
    environ = {"TFDP_HOSTS_FILE": str(hosts(tmp_path, "a:1\na:1\n")), "TFDP_WORKER_INDEX": "0"}
    with pytest.raises(ClusterError, match="names a:1 twice"):
        detect_cluster(environ)


def test_an_index_that_is_too_large(tmp_path: Path) -> None:
    environ = {"TFDP_HOSTS_FILE": str(hosts(tmp_path, "a\nb\n")), "TFDP_WORKER_INDEX": "2"}
    with pytest.raises(ClusterError, match="names 2 workers: 0 to 1"):
        detect_cluster(environ)


def test_names_of_this_machine() -> None:
    names = local_names()
    assert {"localhost", "127.0.0.1"} <= names
    assert local_indexes(["elsewhere.invalid:1", "127.0.0.1:2", "LocalHost:3"], names) == [1, 2]
