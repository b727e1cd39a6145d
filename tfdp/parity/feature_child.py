"""A child process of ``tfdp features``: ``python -m tfdp.parity.feature_child KIND FOLDER N ...``.

KIND is `one_device` (plain Keras), `stock` (TensorFlow's MirroredStrategy) or `tfdp`. Feature N
leaves `N.npz`, or `N.json` with the error that it ended with; then the process ends, for replicas
that were left in the middle of a step disturb what comes next. A feature that takes the process
down leaves nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfdp.errors import TfdpError
from tfdp.parity.children import end_with_parent, reporting_errors

REPLICAS = 4
SEED = 7
SECONDS_FOR_A_FEATURE = 120.0


def main(kind: str, folder: Path, numbers: Sequence[int]) -> None:
    """Runs the features with these numbers."""
    import keras

    keras.config.set_floatx("float64")
    with reporting_errors(folder):
        scope = _SCOPES[kind]()
        from tfdp.parity.feature_programs import FEATURES

        for number in numbers:
            keras.utils.set_random_seed(SEED)
            file = folder / f"{number}.json"
            with _deadline(file):
                try:
                    result: dict[str, Any] = FEATURES[number].program(scope())
                except Exception as error:
                    _write(file, _one_line(error), refused=isinstance(error, TfdpError))
                    os._exit(0)
            np.savez(folder / f"{number}.npz", **result)


def _one_device() -> Callable[[], Any]:
    return contextlib.nullcontext


def _stock() -> Callable[[], Any]:
    import tensorflow as tf

    from tfdp.strategies.devices import local_devices

    devices = local_devices([f"CPU:{i}" for i in range(REPLICAS)])
    # One for all: two of them in a process take each other's collective keys.
    return tf.distribute.MirroredStrategy(devices).scope


def _tfdp() -> Callable[[], Any]:
    from tfdp.strategies.factory import strategy

    return strategy("mirrored", devices=[f"CPU:{i}" for i in range(REPLICAS)]).scope


_SCOPES: dict[str, Callable[[], Callable[[], Any]]] = {
    "one_device": _one_device,
    "stock": _stock,
    "tfdp": _tfdp,
}


@contextlib.contextmanager
def _deadline(file: Path) -> Iterator[None]:
    """Ends the process, with a message in the file, if the block takes too long."""

    def stop() -> None:
        _write(file, f"not finished after {SECONDS_FOR_A_FEATURE:g} seconds", refused=False)
        os._exit(0)

    timer = threading.Timer(SECONDS_FOR_A_FEATURE, stop)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _write(file: Path, message: str, *, refused: bool) -> None:
    text = json.dumps({"refused": refused, "message": message})
    file.write_text(text, encoding="utf-8")


_NOISE = re.compile(r"\x1b\[[0-9;]*m|\{\{.*?\}\}|\[Op:.*")
_FRAMES = ("File ", "Detected at", "Graph execution error", "Exception encountered", "[[", "<")


def _one_line(error: BaseException) -> str:
    """The exception and the line of its message that says something."""
    text = _NOISE.sub("", str(getattr(error, "message", "") or error))
    lines = [line.strip() for line in text.splitlines()]
    telling = [
        line
        for line in lines
        if line and not line.startswith(_FRAMES) and "root error(s) found" not in line
    ]
    line = (telling or lines or [""])[0]
    return line if isinstance(error, TfdpError) else f"{type(error).__name__}: {line}"


if __name__ == "__main__":
    end_with_parent()
    main(sys.argv[1], Path(sys.argv[2]), [int(number) for number in sys.argv[3:]])
