"""Workers check each other before TensorFlow's collectives start, which would wait in silence."""

from __future__ import annotations

from tfdp.cluster.rendezvous.facts import (
    DEFAULT_START_TIMEOUT_SECONDS,
    START_TIMEOUT_VARIABLE,
    start_timeout,
    version_facts,
)
from tfdp.cluster.rendezvous.meet import meet

__all__ = [
    "DEFAULT_START_TIMEOUT_SECONDS",
    "START_TIMEOUT_VARIABLE",
    "meet",
    "start_timeout",
    "version_facts",
]
