"""Runs cases in one process and writes what came out. Started by the parity tests.

    python -m tests.parity.program MODE FOLDER COUNT:CASE ...

Every case leaves `FOLDER/COUNT/CASE.npz`, or `CASE.error` with a traceback. The modes:

* `one_device` is plain Keras, in a process that never imports tfdp;
* `mirrored` has COUNT replicas in this process;
* `multi_worker` is one worker of the cluster in TF_CONFIG, with COUNT replicas in all;
* `stock` is TensorFlow's own MirroredStrategy.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

SEED = 11


def main(mode: str, floatx: str, devices: int, folder: Path, wanted: Sequence[str]) -> None:
    keras.config.set_floatx(floatx)
    keras.config.disable_traceback_filtering()
    scope_of = _MODES[mode](devices)
    from tests.parity.cases import CASES

    for count, name in (item.split(":") for item in wanted):
        keras.utils.set_random_seed(SEED)
        print(f"{count} replicas: {name}", flush=True)
        target = folder / count / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            result = CASES[name].run(scope_of(int(count)))
        except Exception:
            target.with_suffix(".error").write_text(traceback.format_exc(), encoding="utf-8")
            continue
        np.savez(target.with_suffix(".npz"), **{k: np.asarray(v) for k, v in result.items()})
    if mode in ("one_device", "stock"):
        assert not any(name.split(".")[0] == "tfdp" for name in sys.modules)


def _end_with(parent: int) -> None:
    """Ends this process when the tests that started it are gone, however they ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _one_device(devices: int) -> Callable[[int], Any]:
    del devices
    return lambda count: contextlib.nullcontext()


def _mirrored(devices: int) -> Callable[[int], Any]:
    import tfdp

    tfdp.strategy("mirrored", devices=devices)
    strategies = {}

    def scope(count: int) -> Any:
        if count not in strategies:
            strategies[count] = tfdp.strategy("mirrored", devices=count)
        return strategies[count].scope()

    return scope


def _multi_worker(devices: int) -> Callable[[int], Any]:
    import tfdp

    strategy = tfdp.strategy("multi_worker", devices=devices)

    def scope(count: int) -> Any:
        assert strategy.num_replicas_in_sync == count
        return strategy.scope()

    return scope


def _stock(devices: int) -> Callable[[int], Any]:
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * devices,
    )

    strategies = {}

    def scope(count: int) -> Any:
        if count not in strategies:
            names = [f"CPU:{i}" for i in range(count)]
            strategies[count] = tf.distribute.MirroredStrategy(names)
        return strategies[count].scope()

    return scope


_MODES: dict[str, Callable[[int], Callable[[int], Any]]] = {
    "one_device": _one_device,
    "mirrored": _mirrored,
    "multi_worker": _multi_worker,
    "stock": _stock,
}

if __name__ == "__main__":
    _end_with(os.getppid())
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]), sys.argv[5:])
