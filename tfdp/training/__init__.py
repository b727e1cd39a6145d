"""Training from a config.

The names below are resolved when they are first used, since they load TensorFlow; modules here
that say that they do not can be imported without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfdp.training.run import TrainResult, train

__all__ = ["TrainResult", "train"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tfdp.training' has no attribute {name!r}")
    return getattr(importlib.import_module("tfdp.training.run"), name)
