"""All checks, in the order of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tfdp.cluster.doctor.base import Finding, Patient
from tfdp.cluster.doctor.devices import check_devices
from tfdp.cluster.doctor.machine import check_machine
from tfdp.cluster.doctor.mpi import check_mpi
from tfdp.cluster.doctor.network import check_network
from tfdp.cluster.doctor.versions import check_versions

CHECKS: tuple[Callable[[Patient], Iterator[Finding]], ...] = (
    check_versions,
    check_devices,
    check_mpi,
    check_network,
    check_machine,
)


def examine(patient: Patient) -> Iterator[Finding]:
    """The findings of all checks, each as soon as it is known."""
    for check in CHECKS:
        yield from check(patient)
