"""Each check, well and ill."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tfdp.cluster.doctor import Finding, Patient, Status, devices, machine, mpi, network, versions
from tfdp.cluster.doctor.base import passed, warned, worst

DEADLINE_SECONDS = 120.0


def only(findings: Any, check: str) -> Finding:
    (finding,) = (each for each in findings if each.check == check)
    assert isinstance(finding, Finding)
    assert (finding.status is Status.PASS) == (finding.remedy == "")
    return finding


def test_the_worst() -> None:
    good, bad = passed("a", "b"), warned("a", "b", "c")
    assert worst([]) is Status.PASS
    assert worst([good, bad, good]) is Status.WARN


def test_versions_of_this_environment() -> None:
    findings = list(versions.check_versions(Patient({"KERAS_BACKEND": "tensorflow"})))
    assert [f.check for f in findings] == [
        "python", "tensorflow", "keras", "tensorboard", "keras backend",
    ]  # fmt: skip
    assert worst(findings) is Status.PASS


@pytest.mark.parametrize(
    ("version", "message"),
    [("2.20.1", "2.20.1 is not supported, 2.21 is"), (None, "is not installed")],
)
def test_another_version(
    version: str | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "_installed", lambda _: version)
    finding = only(versions.check_versions(Patient({})), "tensorflow")
    assert (finding.status, finding.message) == (Status.FAIL, message)
    assert finding.remedy == "pip install 'tensorflow==2.21.*'"


@pytest.mark.parametrize("version", [(3, 10), (3, 14)])
def test_another_python(version: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions.sys, "version_info", version)
    finding = only(versions.check_versions(Patient({})), "python")
    assert (finding.status, finding.remedy) == (Status.FAIL, "Use Python 3.11 to 3.13.")


@pytest.mark.parametrize(
    ("environ", "file", "status"),
    [
        ({}, None, Status.PASS),
        ({}, '{"backend": "jax"}', Status.FAIL),
        ({}, "nonsense", Status.PASS),
        ({}, "[]", Status.PASS),
        ({"KERAS_BACKEND": "torch"}, None, Status.FAIL),
        ({"KERAS_BACKEND": "tensorflow"}, '{"backend": "jax"}', Status.PASS),
    ],
)
def test_the_backend_of_keras(
    environ: dict[str, str], file: str | None, status: Status, tmp_path: Path
) -> None:
    if file is not None:
        (tmp_path / ".keras").mkdir()
        (tmp_path / ".keras" / "keras.json").write_text(file)
    patient = Patient(environ | {"HOME": str(tmp_path)})
    assert only(versions.check_versions(patient), "keras backend").status is status


NO_GPU: dict[str, Any] = {"gpus": [], "cuda": False, "cuda_version": ""}
TWO_GPUS: dict[str, Any] = {"gpus": ["Some GPU", "Some GPU"], "cuda": True, "cuda_version": "12.9"}


@pytest.mark.parametrize(
    ("seen", "wanted", "environ", "driver", "status"),
    [
        (NO_GPU, None, {}, False, Status.PASS),
        (NO_GPU, 4, {}, False, Status.PASS),
        (NO_GPU, None, {}, True, Status.WARN),
        (NO_GPU, None, {"CUDA_VISIBLE_DEVICES": "-1"}, True, Status.PASS),
        (TWO_GPUS, 2, {}, True, Status.PASS),
        (TWO_GPUS, 3, {}, True, Status.FAIL),
    ],
)
def test_devices(
    seen: dict[str, Any], wanted: int | None, environ: dict[str, str], driver: bool, status: Status
) -> None:
    patient = Patient(environ, devices=wanted)
    assert devices._devices(seen, patient, driver=driver).status is status


def test_nccl() -> None:
    assert devices._nccl(NO_GPU).status is Status.PASS
    assert devices._nccl(TWO_GPUS).message == "part of this TensorFlow (CUDA 12.9)"
    assert devices._nccl(TWO_GPUS | {"cuda": False}).status is Status.WARN


@pytest.mark.multi_process
@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import time; time.sleep(60)", "TensorFlow did not list its devices within 1 s"),
        ("raise ImportError('libx')", "cannot be loaded (exit code 1): ImportError: libx"),
        ("import os; os.abort()", "cannot be loaded (exit code -6): no message"),
    ],
)
def test_a_tensorflow_that_is_broken(
    program: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "_PROGRAM", program)
    (finding,) = devices.check_devices(Patient(dict(os.environ), timeout_seconds=1))
    assert finding.status is Status.FAIL
    assert message in finding.message


@pytest.mark.multi_process
@pytest.mark.slow
def test_the_devices_of_this_machine() -> None:
    patient = Patient(dict(os.environ), timeout_seconds=DEADLINE_SECONDS)
    assert [finding.check for finding in devices.check_devices(patient)] == ["devices", "nccl"]


def test_mpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi.importlib.metadata, "version", lambda _: "4.1")
    program = tmp_path / "mpiexec"
    program.write_text("")
    program.chmod(0o755)
    found = only(mpi.check_mpi(Patient({"PATH": str(tmp_path)})), "mpi")
    assert found.message == f"{program}, mpi4py 4.1"


def test_without_mpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise mpi.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(mpi.importlib.metadata, "version", missing)
    monkeypatch.setattr(mpi.sys, "executable", str(tmp_path / "python"))
    finding = only(mpi.check_mpi(Patient({"PATH": str(tmp_path)})), "mpi")
    assert finding.status is Status.WARN
    assert finding.message.startswith("no mpiexec and no mpi4py; ")


def tf_config(*workers: str) -> dict[str, str]:
    task = {"type": "worker", "index": 0}
    return {"TF_CONFIG": json.dumps({"cluster": {"worker": list(workers)}, "task": task})}


def test_no_cluster() -> None:
    findings = list(network.check_network(Patient({})))
    assert [finding.check for finding in findings] == ["cluster", "dns"]
    assert worst(findings) is Status.PASS


def test_a_cluster_that_is_needed() -> None:
    finding = only(network.check_network(Patient({}, needs_cluster=True)), "cluster")
    assert finding.status is Status.WARN
    assert "tfdp launch" in finding.remedy


def test_a_malformed_cluster() -> None:
    (finding,) = network.check_network(Patient({"TF_CONFIG": "{"}))
    assert finding.status is Status.FAIL
    assert finding.message.startswith("TF_CONFIG is not JSON")
    assert finding.remedy.startswith("TF_CONFIG should look like")


def test_a_cluster_that_works_until_its_port_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        patient = Patient(tf_config(f"127.0.0.1:{port}", "localhost:1"))
        taken = list(network.check_network(patient))
    free = list(network.check_network(patient))
    assert [f.status for f in free] == [Status.PASS] * 3
    assert free[0].message == "worker 0 of 2, from TF_CONFIG"
    assert [f.status for f in taken] == [Status.PASS, Status.PASS, Status.FAIL]
    assert taken[2].message == f"{port} cannot be used: address already in use"


def test_names_that_do_not_resolve() -> None:
    patient = Patient(tf_config("localhost:1024", "nope.invalid:2"), timeout_seconds=10)
    finding = only(network.check_network(patient), "dns")
    assert finding.status is Status.FAIL
    assert finding.message.startswith("nope.invalid does not resolve (")


def test_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine._disk(tmp_path / "not" / "yet").message.endswith(f"free in {tmp_path}")
    usage = type("Usage", (), {"free": 1 << 30})
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: usage)
    assert machine._disk(tmp_path).status is Status.WARN
    usage.free = 1 << 20  # type: ignore[attr-defined]
    assert machine._disk(tmp_path).status is Status.FAIL


def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    finding = machine._disk(tmp_path / "file" / "run")
    assert finding.status is Status.FAIL
    assert "cannot be written to: it is not a directory" in finding.message


@pytest.mark.parametrize(
    ("available", "status"),
    [(1 << 33, Status.PASS), (1 << 30, Status.WARN), (1 << 20, Status.FAIL), (None, Status.WARN)],
)
def test_memory(available: int | None, status: Status) -> None:
    assert machine._memory(available).status is status


@pytest.mark.parametrize(
    ("limit", "expected"), [("max", 4096 * 1024), ("3000000", 3000000 - 2000000 + 500000)]
)
def test_the_memory_of_a_container(limit: str, expected: int, tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9000 kB\nMemAvailable:    4096 kB\n")
    assert machine._available_memory(meminfo, tmp_path) == 4096 * 1024
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text("2000000\n")
    (tmp_path / "memory.stat").write_text("anon 7\ninactive_file 500000\n")
    assert machine._available_memory(meminfo, tmp_path) == expected
    assert machine._available_memory(tmp_path / "none", tmp_path) is None


def test_a_clock_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_is_synchronised", lambda _: None)
    assert machine._clock(1).status is Status.PASS
    monkeypatch.setattr(machine, "_is_synchronised", lambda _: False)
    assert machine._clock(1).status is Status.WARN
    monkeypatch.setattr(machine.time, "time", lambda: 0.0)
    assert machine._clock(1).status is Status.FAIL


@pytest.mark.multi_process
def test_loads_nothing_heavy(repository: Path) -> None:
    code = (
        "import os, sys\nfrom tfdp.cluster.doctor import *\n"
        "from tfdp.cluster.doctor import run, devices\n"
        "run.CHECKS = tuple(c for c in run.CHECKS if c is not devices.check_devices)\n"
        "assert list(examine(Patient(dict(os.environ))))\n"
        "assert not {'tensorflow', 'keras', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=repository, timeout=60, check=True)
