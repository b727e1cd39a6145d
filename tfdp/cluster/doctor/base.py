"""What checks are given and what they give back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class Status(StrEnum):
    """How a check came out, from best to worst."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's report.

    Attributes:
      check: what was looked at.
      status: how it came out.
      message: what was found.
      remedy: what to do about it; empty where nothing has to be done.
    """

    check: str
    status: Status
    message: str
    remedy: str = ""


@dataclass(frozen=True)
class Patient:
    """What is to be examined.

    Attributes:
      environ: the environment variables of the process that would train.
      output: the directory that a run would write to; it need not exist yet.
      devices: replicas that are asked for on this machine, or None.
      needs_cluster: whether it is to train on several workers.
      timeout_seconds: for each check that asks another process or a name server.
    """

    environ: Mapping[str, str]
    output: Path = field(default_factory=Path.cwd)
    devices: int | None = None
    needs_cluster: bool = False
    timeout_seconds: float = 60.0


def passed(check: str, message: str) -> Finding:
    """All is well."""
    return Finding(check, Status.PASS, message)


def warned(check: str, message: str, remedy: str) -> Finding:
    """Training may work, but not as well as it could."""
    return Finding(check, Status.WARN, message, remedy)


def failed(check: str, message: str, remedy: str) -> Finding:
    """Training cannot work."""
    return Finding(check, Status.FAIL, message, remedy)


def worst(findings: Iterable[Finding]) -> Status:
    """The worst status of all; pass if there is none."""
    order = list(Status)
    return max((finding.status for finding in findings), key=order.index, default=Status.PASS)
