"""Is this machine ready to train? Each check says pass, warn or fail, and what to do about it."""

from __future__ import annotations

from tfdp.cluster.doctor.base import Finding, Patient, Status, worst
from tfdp.cluster.doctor.run import examine

__all__ = ["Finding", "Patient", "Status", "examine", "worst"]
