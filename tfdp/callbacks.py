"""tfdp's Keras callbacks, for scripts that call `model.fit` themselves.

>>> finite = tfdp.callbacks.FiniteGuard()                                       # doctest: +SKIP
>>> saver = tfdp.callbacks.Checkpoints("run", every_steps=500, check=finite.check)  # doctest: +SKIP
>>> model.fit(data, epochs=10, callbacks=[finite, saver])                       # doctest: +SKIP

`tfdp train` adds them by itself. Importing this module does not load TensorFlow: the names are
resolved when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfdp.training.drift import DriftGuard
    from tfdp.training.nonfinite import FiniteGuard
    from tfdp.training.saver import Checkpoints

_HOME = {
    "Checkpoints": "tfdp.training.saver",
    "DriftGuard": "tfdp.training.drift",
    "FiniteGuard": "tfdp.training.nonfinite",
}

__all__ = ["Checkpoints", "DriftGuard", "FiniteGuard"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tfdp.callbacks' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
