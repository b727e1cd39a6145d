"""What a reducer is and what it is told about the machine."""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar, TypeAlias

import tensorflow as tf

from tfdp.collectives.between_workers import WorkerReduction
from tfdp.collectives.local import LocalReduction

Implementation: TypeAlias = tf.distribute.experimental.CommunicationImplementation


@dataclasses.dataclass(frozen=True)
class Topology:
    """The devices that a strategy reduces over.

    Attributes:
        workers: number of worker processes; 1 for a mirrored strategy.
        replicas_per_worker: devices of one worker, all of one type.
        device_type: "CPU" or "GPU".
        virtual_gpus: True where one physical GPU was split into several logical ones.
    """

    workers: int
    replicas_per_worker: int
    device_type: str
    virtual_gpus: bool = False

    @property
    def replicas(self) -> int:
        """Number of replicas in all."""
        return self.workers * self.replicas_per_worker

    def describe(self) -> str:
        """One phrase for messages, such as "2 workers x 4 CPU replicas"."""
        kind = f"virtual {self.device_type}" if self.virtual_gpus else self.device_type
        replicas = f"{self.replicas_per_worker} {kind} replica{_s(self.replicas_per_worker)}"
        return replicas if self.workers == 1 else f"{self.workers} workers x {replicas}"


class Reducer(abc.ABC):
    """One way to sum gradients over all replicas.

    It supplies one of these, the first that is not None being used:

    * between workers a `WorkerReduction`, called once for each worker;
    * in one process a `LocalReduction`, or a `tf.distribute.CrossDeviceOps`, which see the values
      of all local replicas at once;
    * the name of the implementation of TensorFlow's collective ops, which each replica calls for
      itself.
    """

    name: ClassVar[str]
    summary: ClassVar[str]

    @abc.abstractmethod
    def refusal(self, topology: Topology) -> str | None:
        """Why this reducer cannot serve the topology, or None if it can."""

    def describe(self, topology: Topology) -> str:
        """Its name, with what it has chosen for the topology by itself."""
        del topology
        return self.name

    @property
    def reduces_between_workers(self) -> bool:
        """Whether it sums once for each worker, through a `WorkerReduction`."""
        return type(self).worker_reduction is not Reducer.worker_reduction

    def has_buckets(self, topology: Topology) -> bool:
        """Whether the size of the buckets changes what it does."""
        return self.cross_device_ops(topology) is None

    def implementation(self, topology: Topology) -> Implementation:
        """The collective-op implementation used where values are reduced inside the replicas."""
        del topology
        return Implementation.RING

    def cross_device_ops(self, topology: Topology) -> tf.distribute.CrossDeviceOps | None:
        """Cross-device ops to use instead of collective ops, or None for collective ops."""
        del topology
        return None

    def local_reduction(self, topology: Topology) -> LocalReduction | None:
        """A reduction between the devices of one process, or None."""
        del topology
        return None

    def worker_reduction(self, topology: Topology) -> WorkerReduction | None:
        """A reduction between workers to use instead of collective ops, or None for those."""
        del topology
        return None


def _s(count: int) -> str:
    return "" if count == 1 else "s"
