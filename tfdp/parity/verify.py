"""`tfdp.verify`: does my own model train on N replicas what it trains on one device?"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfdp.errors import DataError, StrategyError, UnsupportedError
from tfdp.parity.child import DATA_FILE, JOB_FILE, load
from tfdp.parity.children import run_child
from tfdp.parity.handover import encode, function_reference, refuse_in_child
from tfdp.parity.report import Report
from tfdp.parity.verdicts import verdicts

CHILD_MODULE = "tfdp.parity.child"
DEFAULT_STEPS = 8


def verify(
    build_fn: Callable[[], Any] | str,
    data: Any,
    replicas: Sequence[int] = (1, 2, 4),
    *,
    epochs: int = 1,
    batch_size: int = 32,
    steps: int = DEFAULT_STEPS,
    seed: int = 0,
    exact: bool = False,
    tolerance: float | None = None,
    in_process: bool = False,
    timeout_seconds: float = 1800.0,
) -> Report:
    """Trains a model on one device and on N replicas, and compares everything.

    One device is plain Keras without a strategy. It and the replicas run in child processes, which
    import `build_fn` by its name; so it has to stand in a module, or in a script that calls
    `verify` under ``if __name__ == "__main__"``.

    Args:
      build_fn: makes the compiled model, without arguments; or "module:function".
      data: arrays `(x, y)` or `(x, y, sample_weight)`, where x and y may be dicts of arrays; a
        `tf.data.Dataset` or `PyDataset` of global batches; a pair (training, validation) of two of
        these; or a function (or "module:function") that returns such.
      replicas: the numbers of replicas to compare.
      epochs: to train.
      batch_size: rows of a global batch, where `data` are arrays.
      steps: full batches of an epoch that are used, at the most. Of arrays the last, smaller batch
        comes on top: it is where replicas get different numbers of rows.
      seed: of weights and random layers.
      exact: whether to compute in float64, where rounding cannot hide a fault. It changes Keras'
        default type in the children; layers with a type of their own keep it.
      tolerance: allowed difference relative to the size of a value. None: 1e-12 in float64 and 1e-5
        in float32; or more for a value on which one unit of rounding in the initial weights has
        more effect than that (eight times the effect, which is measured on one device).
      in_process: whether to run everything in this process, one after the other. For functions of a
        notebook; needs a device for each replica here (make `tfdp.strategy("mirrored", devices=4)`
        in the first cell), and sets the random seeds of this process.
      timeout_seconds: after which a child is stopped.

    Returns:
      A verdict on each feature for each number of replicas.

    Raises:
      UnsupportedError: `build_fn` or `data` cannot be handed to a child, or the model has a feature
        that several replicas cannot train exactly.
      DataError: `data` cannot be trained on.
      StrategyError: numbers of replicas that cannot be, or with `in_process` too few devices.
      RunError: a child failed or took too long; with the end of what it wrote.
    """
    refuse_in_child("tfdp.verify")
    counts = _checked_counts(replicas)
    for name, value in (("epochs", epochs), ("batch_size", batch_size), ("steps", steps)):
        if not isinstance(value, int) or value < 1:
            raise DataError(f"{name} has to be a whole number of at least 1, got {value!r}.")
    fields: dict[str, Any] = {
        "epochs": epochs,
        "batch_size": batch_size,
        "steps": steps,
        "seed": seed,
        "floatx": "float64" if exact else None,
    }
    if in_process:
        from tfdp.parity.in_process import run_here

        return run_here(build_fn, data, counts, fields, tolerance)
    leaves: list[np.ndarray] = []
    fields["build"] = function_reference(build_fn, "build_fn")
    fields["data"] = _hand_over(data, steps, leaves)
    return run_children(fields, leaves, counts, tolerance, timeout_seconds)


def run_children(
    fields: Mapping[str, Any],
    leaves: Sequence[np.ndarray],
    counts: tuple[int, ...],
    tolerance: float | None,
    timeout_seconds: float,
) -> Report:
    """Runs one device and the replicas in two children, and compares what they recorded.

    Args:
      fields: of the job; see `tfdp.parity.child`.
      leaves: the arrays that `fields` refers to.
      counts: numbers of replicas.
      tolerance: see `verify`.
      timeout_seconds: of each child.
    """
    with tempfile.TemporaryDirectory(prefix="tfdp-verify-") as name:
        folder = Path(name)
        job = {**fields, "largest": max(counts), "sys_path": sys.path}
        (folder / JOB_FILE).write_text(json.dumps(job), encoding="utf-8")
        by_number: dict[str, Any] = {str(i): leaf for i, leaf in enumerate(leaves)}
        np.savez(folder / DATA_FILE, **by_number)
        for child, chosen in (("one device", ()), ("replicas", counts)):
            place = folder / child.replace(" ", "-")
            place.mkdir()
            (place / JOB_FILE).write_text(json.dumps(chosen), encoding="utf-8")
            run_child(
                CHILD_MODULE, [str(place)], place, what=child, timeout_seconds=timeout_seconds
            )
        one, facts, what = load(folder / "one-device", 0)
        found = []
        for count in counts:
            many, _, _ = load(folder / "replicas", count)
            found += verdicts(one, many, count, facts, tolerance)
    return Report(tuple(found), f"{what}, {facts.precision}")


def _checked_counts(replicas: Sequence[int]) -> tuple[int, ...]:
    counts = tuple(replicas)
    if not counts or not all(isinstance(count, int) and count >= 1 for count in counts):
        raise StrategyError(
            f"replicas={replicas!r} has to hold at least one number, and none below 1."
        )
    return tuple(sorted(set(counts)))


def _hand_over(data: Any, steps: int, leaves: list[np.ndarray]) -> dict[str, Any]:
    if isinstance(data, str) or (callable(data) and not hasattr(data, "__array__")):
        return {"function": function_reference(data, "data")}
    if hasattr(data, "element_spec") or hasattr(data, "on_epoch_end"):
        from tfdp.parity.sources import first_batches

        batches = first_batches(data, steps)
        if not batches:
            raise DataError("data: there are no batches in the data set.")
        return {"structure": encode(batches, leaves), "batches": True}
    if isinstance(data, (tuple, list)) and any(hasattr(p, "element_spec") for p in data):
        raise UnsupportedError(
            "data: a pair of tf.data.Datasets cannot be handed to another process.",
            hint="Pass a function that returns the pair instead.",
        )
    return {"structure": encode(data, leaves)}
