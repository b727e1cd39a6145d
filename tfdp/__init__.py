"""tfdp: exact data-parallel training for TensorFlow and Keras 3.

>>> import tfdp
>>> strategy = tfdp.strategy("mirrored", devices=4)     # doctest: +SKIP
>>> with strategy.scope():                              # doctest: +SKIP
...     model = build_model(); model.compile(...)
>>> model.fit(data)                                     # doctest: +SKIP

Importing this package does not load TensorFlow: the names below are resolved when they are
first used, so that settings which TensorFlow reads once (`tune_runtime`) can still be made.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tfdp import callbacks, errors
    from tfdp.cluster.runtime import tune_runtime
    from tfdp.launcher.api import launch
    from tfdp.parity.verify import verify
    from tfdp.strategies.batch_norm import synchronize_batch_norm
    from tfdp.strategies.factory import strategy

_HOME = {
    "callbacks": ("tfdp.callbacks", None),
    "errors": ("tfdp.errors", None),
    "launch": ("tfdp.launcher.api", "launch"),
    "strategy": ("tfdp.strategies.factory", "strategy"),
    "synchronize_batch_norm": ("tfdp.strategies.batch_norm", "synchronize_batch_norm"),
    "tune_runtime": ("tfdp.cluster.runtime", "tune_runtime"),
    "verify": ("tfdp.parity.verify", "verify"),
}

__all__ = [
    "__version__",
    "callbacks",
    "errors",
    "launch",
    "strategy",
    "synchronize_batch_norm",
    "tune_runtime",
    "verify",
]


def __getattr__(name: str) -> Any:
    try:
        module_name, attribute = _HOME[name]
    except KeyError:
        raise AttributeError(f"module 'tfdp' has no attribute {name!r}") from None
    module = importlib.import_module(module_name)
    return module if attribute is None else getattr(module, attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
