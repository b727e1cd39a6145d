"""The versions that tfdp was tested with; here, so that they can be read without TensorFlow."""

from __future__ import annotations

SUPPORTED: dict[str, tuple[tuple[int, int], ...]] = {
    "tensorflow": ((2, 21),),
    "keras": ((3, 15),),
}
"""Minor versions that the whole test suite ran with."""
