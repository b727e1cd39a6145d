"""What workers are about to do, in words that they exchange and compare."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

TOLD_BYTES = 128


def told(what: str) -> np.ndarray:
    """The words as uint8 of shape (TOLD_BYTES,): cut off, or filled up with zeros."""
    return np.frombuffer(what.encode()[:TOLD_BYTES].ljust(TOLD_BYTES, b"\0"), np.uint8)


def different(by_workers: Sequence[np.ndarray]) -> list[str] | None:
    """The words of each worker, as `told` has made them; None where all are the same."""
    words = [bytes(each) for each in by_workers]
    if all(each == words[0] for each in words):
        return None
    return [each.rstrip(b"\0").decode(errors="replace") for each in words]
