"""A child process of ``tfdp features``: ``python -m tfdp.parity.feature_child KIND FOLDER N ...``.

KIND is `one_device` (plain Keras), `stock` (TensorFlow's MirroredStrategy) or `tfdp`. Feature N
leaves `N.npz`, or `N.json` with the error that it ended with. A feature that takes the process
down leaves nothing.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfdp.errors import TfdpError
from tfdp.parity.children import reporting_errors

REPLICAS = 4
SEED = 7


def main(kind: str, folder: Path, numbers: Sequence[int]) -> None:
    """Runs the features with these numbers."""
    import keras

    keras.config.set_floatx("float64")
    with reporting_errors(folder):
        scope = _SCOPES[kind]()
        from tfdp.parity.feature_programs import FEATURES

        for number in numbers:
            keras.utils.set_random_seed(SEED)
            try:
                result: dict[str, Any] = FEATURES[number].program(scope())
            except Exception as error:
                fields = {"refused": isinstance(error, TfdpError), "message": _one_line(error)}
                (folder / f"{number}.json").write_text(json.dumps(fields), encoding="utf-8")
            else:
                np.savez(folder / f"{number}.npz", **result)


def _one_device() -> Callable[[], Any]:
    return contextlib.nullcontext


def _stock() -> Callable[[], Any]:
    import tensorflow as tf

    from tfdp.strategies.devices import local_devices

    devices = local_devices([f"CPU:{i}" for i in range(REPLICAS)])
    # A strategy of its own for each feature: a crash leaves one behind that is of no more use.
    return lambda: tf.distribute.MirroredStrategy(devices).scope()


def _tfdp() -> Callable[[], Any]:
    from tfdp.strategies.factory import strategy

    return strategy("mirrored", devices=[f"CPU:{i}" for i in range(REPLICAS)]).scope


_SCOPES: dict[str, Callable[[], Callable[[], Any]]] = {
    "one_device": _one_device,
    "stock": _stock,
    "tfdp": _tfdp,
}


def _one_line(error: BaseException) -> str:
    text = str(getattr(error, "message", "") or error).strip()
    return f"{type(error).__name__}: {' '.join(text.split())}"


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), [int(number) for number in sys.argv[3:]])
