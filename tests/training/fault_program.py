"""What each worker of `test_fault_workers.py` runs: `python -m ... FOLDER`.

Prints one line of JSON with what the worker saw.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import tfdp
from tests.training.faulty import dense, fit, flip_bit, rooted, rows
from tfdp.callbacks import DriftGuard, FiniteGuard
from tfdp.errors import DriftError, NotFiniteError, TfdpError
from tfdp.training.incidents import IncidentLog


def seen(error: TfdpError) -> dict[str, Any]:
    return {**vars(error), "kind": type(error).__name__}


def gradient(strategy: Any, log: IncidentLog | None) -> dict[str, Any]:
    """Row 7 of the fourth batch is that of the last of four replicas."""
    x, y = rows(48)
    x[3 * 8 + 7, 0] = 0.0
    try:
        fit(rooted(strategy), (x, y), FiniteGuard(incidents=log))
    except NotFiniteError as error:
        return seen(error)
    return {}


def weight(strategy: Any) -> dict[str, Any]:
    """Worker 1 alone has a weight that is not finite."""
    model, guard = rooted(strategy), FiniteGuard()
    fit(model, rows(16), guard, epochs=1)
    if not strategy.tfdp_is_chief:
        for copy in strategy.experimental_local_results(model.layers[0].offset.value):
            copy.assign([np.inf])
    try:
        guard.check()
    except NotFiniteError as error:
        return seen(error)
    return {}


def drift(strategy: Any, log: IncidentLog | None) -> dict[str, Any]:
    """First without, then with a bit changed on the first replica of worker 1."""
    model, guard = dense(strategy), DriftGuard(every_steps=2, incidents=log)
    fit(model, rows(30), guard, FiniteGuard())
    assert guard.total_steps == 8
    if not strategy.tfdp_is_chief:
        flip_bit(model, model.get_layer("last").kernel, 0, element=5, bit=1)
    try:
        fit(model, rows(30), guard)
    except DriftError as error:
        return seen(error)
    return {}


def main() -> None:
    strategy = tfdp.strategy("multi_worker", devices=2)
    chief = strategy.tfdp_is_chief
    log = IncidentLog(Path(sys.argv[1]) / "incidents.jsonl") if chief else None
    result = {
        "gradient": gradient(strategy, log),
        "weight": weight(strategy),
        "drift": drift(strategy, log),
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
