"""Reducers by name: what is known, what each refuses, what "auto" chooses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tensorflow as tf

import tfdp
from tfdp.collectives import Reducer, Topology, choose, names, register, registry, resolve
from tfdp.config.names import CROSS_DEVICE_OPS
from tfdp.errors import StrategyError

CPUS = Topology(1, 4, "CPU")
GPUS = Topology(1, 4, "GPU")
VIRTUAL = Topology(1, 4, "GPU", virtual_gpus=True)
WORKERS = Topology(2, 2, "CPU")
GPU_WORKERS = Topology(2, 8, "GPU")


@pytest.mark.parametrize(
    ("topology", "name"),
    [
        (CPUS, "reduce_to_one"),
        (GPUS, "nccl"),
        (VIRTUAL, "reduce_to_one"),
        (WORKERS, "ring"),
        (GPU_WORKERS, "nccl"),
    ],
)
def test_auto(topology: Topology, name: str) -> None:
    reducer, reason = choose(topology)
    assert reducer.name == name
    assert reason
    assert reducer.refusal(topology) is None


@pytest.mark.parametrize(
    ("name", "topology", "why"),
    [
        ("nccl", CPUS, "on the CPU"),
        ("nccl", VIRTUAL, "virtual"),
        ("hierarchical_copy", WORKERS, "one host"),
        ("hierarchical_copy", Topology(1, 3, "CPU"), "two halves of equal size"),
        ("reduce_to_one", WORKERS, "one host"),
        ("two_level", CPUS, "several workers"),
    ],
)
def test_refusals_name_the_reason_and_the_alternatives(
    name: str, topology: Topology, why: str
) -> None:
    with pytest.raises(StrategyError, match=why) as caught:
        resolve(name, topology)
    assert "ring" in str(caught.value)
    assert topology.describe() in str(caught.value)


class Doubling(Reducer):
    """A user's own: reduces to one device."""

    name = "mine"
    summary = "for this test"

    def refusal(self, topology: Topology) -> str | None:
        return None if topology.replicas == 2 else "it wants two replicas"

    def cross_device_ops(self, topology: Topology) -> tf.distribute.CrossDeviceOps:
        return tf.distribute.ReductionToOneDevice()


@pytest.fixture
def mine() -> Iterator[None]:
    register(Doubling())
    yield
    del registry._REDUCERS["mine"]


@pytest.mark.usefixtures("mine")
def test_a_registered_reducer_is_used_by_name() -> None:
    assert "mine" in names()
    strategy = tfdp.strategy("mirrored", devices=2, cross_device_ops="mine")
    assert strategy.tfdp_reducer.name == "mine"  # type: ignore[attr-defined]
    with pytest.raises(StrategyError, match="two replicas"):
        tfdp.strategy("mirrored", devices=3, cross_device_ops="mine")


def test_two_levels_may_have_another_way_between_the_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("PMI_RANK", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    reducer, _ = resolve("two_level", WORKERS)
    assert reducer.describe(WORKERS) == "two_level with ring between workers"
    with pytest.raises(StrategyError, match="MPI runs 1 process"):
        resolve("two_level", WORKERS, "mpi")
    with pytest.raises(StrategyError, match="reduces between GPUs"):
        resolve("two_level", WORKERS, "nccl")
    assert resolve("two_level", GPU_WORKERS, "nccl")[0].refusal(GPU_WORKERS) is None
    with pytest.raises(StrategyError, match="Known: auto, ring, mpi, nccl"):
        resolve("two_level", WORKERS, "pigeon")
    with pytest.raises(StrategyError, match="is a choice of 'two_level'"):
        resolve("ring", WORKERS, "mpi")


def test_a_name_is_taken_once() -> None:
    with pytest.raises(StrategyError, match="taken"):
        register(registry._REDUCERS["ring"])


def test_a_config_knows_the_same_names() -> None:
    assert set(CROSS_DEVICE_OPS) == set(names())
