"""`tfdp.strategy`: what it returns and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

import tfdp
from tfdp.errors import ClusterError, StrategyError, UnsupportedError
from tfdp.strategies.keras_compat import versions


def run(program: str, repository: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in a fresh process, with a deadline."""
    import os

    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **environ},
        check=False,
    )


def test_mirrored_is_a_mirrored_strategy() -> None:
    strategy = tfdp.strategy("mirrored", devices=4)
    assert isinstance(strategy, tf.distribute.MirroredStrategy)
    assert strategy.num_replicas_in_sync == 4


def test_single_is_one_replica() -> None:
    strategy = tfdp.strategy("single")
    assert isinstance(strategy, tf.distribute.MirroredStrategy)
    assert strategy.num_replicas_in_sync == 1


@pytest.mark.parametrize(
    ("devices", "replicas"), [(None, 1), (1, 1), (3, 3), (["CPU:1", "CPU:2"], 2)]
)
def test_auto_without_a_cluster(devices: object, replicas: int) -> None:
    assert tfdp.strategy(devices=devices).num_replicas_in_sync == replicas  # type: ignore[arg-type]


def test_devices_by_name_are_the_ones_used() -> None:
    strategy = tfdp.strategy("mirrored", devices=["/device:CPU:5", "CPU:2"])
    assert [name.rsplit("/", 1)[1] for name in strategy.extended.worker_devices] == [
        "device:CPU:5",
        "device:CPU:2",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"kind": "miror"}, "Did you mean 'mirrored'?"),
        ({"kind": "mirrored", "devices": 0}, "leaves no device"),
        ({"kind": "mirrored", "devices": []}, "leaves no device"),
        ({"kind": "mirrored", "devices": 2.5}, "neither a count nor a list"),
        ({"kind": "mirrored", "devices": True}, "neither a count nor a list"),
        ({"kind": "mirrored", "devices": ["CPU:0", "CPU:0"]}, "names a device twice"),
        ({"kind": "mirrored", "devices": ["CPU:0", "GPU:0"]}, "mixes CPUs and GPUs"),
        ({"kind": "mirrored", "devices": ["TPU:0"]}, "does not name a CPU or GPU"),
        ({"kind": "mirrored", "devices": ["GPU:7"]}, "cannot be found"),
        ({"kind": "mirrored", "devices": ["one/two"]}, "is not the name of a device"),
        ({"kind": "single", "devices": 2}, "asks for 2"),
        ({"kind": "mirrored", "devices": 2, "cross_device_ops": "rign"}, "Did you mean 'ring'?"),
        ({"kind": "mirrored", "devices": 2, "between": "mpi"}, "is a choice of 'two_level'"),
        ({"kind": "mirrored", "devices": 2, "bucket_mb": 0}, "bucket_mb=0 is neither"),
        ({"kind": "mirrored", "devices": 2, "bucket_mb": "big"}, "bucket_mb='big' is neither"),
        ({"kind": "mirrored", "devices": 2, "cross_device_ops": "nccl"}, "reduces between GPUs"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(StrategyError, match=said.replace("?", r"\?")):
        tfdp.strategy(**arguments)  # type: ignore[arg-type]


def test_multi_worker_needs_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(ClusterError, match="neither TF_CONFIG nor"):
        tfdp.strategy("multi_worker")


def test_hierarchical_copy_across_workers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}
    monkeypatch.setenv(
        "TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})
    )
    with pytest.raises(StrategyError, match="one host only") as caught:
        tfdp.strategy("multi_worker", cross_device_ops="hierarchical_copy")
    assert "ring" in str(caught.value)


def test_devices_asked_for_too_late(repository: Path) -> None:
    program = (
        "import tensorflow as tf; tf.constant(1)\n"
        "import tfdp\n"
        "try: tfdp.strategy('mirrored', devices=2)\n"
        "except tfdp.errors.StrategyError as error: print(error)\n"
    )
    said = run(program, repository).stdout
    assert "TensorFlow has already started" in said
    assert "restart the kernel" in said


def test_the_choice_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="tfdp"):
        tfdp.strategy("mirrored", devices=2)
    assert (
        "reduced by reduce_to_one (the CPU replicas of one process share their memory)"
        in caplog.text
    )


def test_another_backend_is_refused(repository: Path) -> None:
    with pytest.raises(UnsupportedError, match="'jax' backend"):
        versions.check_backend("jax")


@pytest.mark.parametrize("version", ["2.20.1", "3.0", "nightly"])
def test_another_version_is_refused(version: str) -> None:
    with pytest.raises(UnsupportedError, match="pip install 'tensorflow=="):
        versions.check_version("tensorflow", version)


def test_supported_versions_pass() -> None:
    versions.check()
