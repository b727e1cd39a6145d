"""The programs in which N replicas must equal one device. Nothing here knows about tfdp."""

from __future__ import annotations

from tests.parity.cases import inputs, layers, linear, losses, metrics, optimizers, sizes, ways
from tests.parity.cases.base import CASES, Case, Result

SUBJECTS = (sizes, optimizers, losses, metrics, inputs, layers, ways, linear)
"""The modules whose import fills `CASES`."""

__all__ = ["CASES", "Case", "Result", "SUBJECTS"]
