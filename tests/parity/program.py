"""Runs cases in one process and writes what came out. Started by the parity tests.

    python -m tests.parity.program one_device OUT [CASE ...]
    python -m tests.parity.program mirrored OUT [CASE ...]
    python -m tests.parity.program multi_worker OUT [CASE ...]     (with TF_CONFIG)

`one_device` is plain Keras: no strategy, and nothing of tfdp is imported.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from typing import Any

import keras
import numpy as np
import tensorflow as tf

REPLICAS = (2, 3, 4, 8)


def run_all(scope: Any, prefix: str, out: dict[str, np.ndarray], names: list[str], count: int) -> None:
    from tests.parity.cases import CASES

    for name in names:
        case = CASES[name]
        if case.replicas is not None and count > 1 and count not in case.replicas:
            continue
        keras.utils.set_random_seed(11)
        try:
            result = case.run(scope())
        except Exception:
            out[f"{prefix}|{name}|error"] = np.array(traceback.format_exc())
            continue
        for key, value in result.items():
            out[f"{prefix}|{name}|{key}"] = np.asarray(value)


def main() -> None:
    mode, path, *names = sys.argv[1:]
    keras.config.set_floatx(os.environ.get("PARITY_FLOATX", "float64"))
    keras.config.disable_traceback_filtering()
    out: dict[str, np.ndarray] = {}
    if mode == "mirrored":
        import tfdp

        counts = [int(n) for n in os.environ.get("PARITY_REPLICAS", "2,3,4,8").split(",")]
        tfdp.strategy("mirrored", devices=max(counts))
        ops = os.environ.get("PARITY_OPS", "auto")
        strategies = {n: tfdp.strategy("mirrored", devices=n, cross_device_ops=ops) for n in counts}
        from tests.parity.cases import CASES

        for count, strategy in strategies.items():
            run_all(strategy.scope, str(count), out, names or list(CASES), count)
    elif mode == "multi_worker":
        import tfdp

        strategy = tfdp.strategy(
            "multi_worker", devices=int(os.environ.get("PARITY_DEVICES", "1"))
        )
        from tests.parity.cases import CASES

        chosen = names or [name for name, case in CASES.items() if case.multi_worker]
        run_all(strategy.scope, "workers", out, chosen, strategy.num_replicas_in_sync)
    else:
        from tests.parity.cases import CASES

        run_all(contextlib.nullcontext, "one", out, names or list(CASES), 1)
    np.savez(path, **out)
    assert tf.executing_eagerly()


if __name__ == "__main__":
    main()
