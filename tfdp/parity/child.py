"""A child process of `tfdp.verify`: ``python -m tfdp.parity.child FOLDER``.

Reads `job.json` and `data.npz` of the folder, and writes one `.npz` for each run beside them.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tfdp.errors import UnsupportedError
from tfdp.parity.children import end_with_parent, reporting_errors

JOB_FILE = "job.json"
DATA_FILE = "data.npz"
VARIANTS = ("as_is", "comparable", "rounding", "repeat")


def main(folder: Path) -> None:
    """Runs what the job says."""
    job_fields = json.loads((folder.parent / JOB_FILE).read_text(encoding="utf-8"))
    replicas = json.loads((folder / JOB_FILE).read_text(encoding="utf-8"))
    sys.path[:] = job_fields["sys_path"]
    with reporting_errors(folder):
        from tfdp.parity.devices import choose_devices
        from tfdp.parity.runs import run_one_device, run_replicas
        from tfdp.strategies.devices import local_devices

        devices = choose_devices(job_fields["largest"])
        if replicas:
            local_devices(devices)  # makes them, before anything starts TensorFlow
        job = _job(job_fields, folder.parent)
        if not replicas:
            save(run_one_device(job, comparable=job_fields["largest"] > 1), folder, 0)
            _assert_plain_keras()
        for count in replicas:
            save(run_replicas(job, devices[:count]), folder, count)


def save(outcome: Any, folder: Path, count: int) -> None:
    """Writes an outcome to the folder; `load` reads it."""
    for variant in VARIANTS:
        arrays = getattr(outcome.runs, variant)
        if arrays is not None:
            np.savez(folder / f"{count}-{variant}.npz", **arrays)
    np.savez(folder / f"{count}-draws.npz", draws=outcome.runs.draws)
    facts = {"what": outcome.what, **dataclasses.asdict(outcome.facts)}
    (folder / f"{count}-facts.json").write_text(json.dumps(facts), encoding="utf-8")


def load(folder: Path, count: int) -> tuple[Any, Any, str]:
    """`(runs, facts, what)` of one device (count 0) or a number of replicas."""
    from tfdp.parity.verdicts import Facts, Runs

    recorded = {}
    for variant in VARIANTS:
        file = folder / f"{count}-{variant}.npz"
        recorded[variant] = _arrays(file) if file.exists() else None
    draws = _arrays(folder / f"{count}-draws.npz")["draws"]
    fields = json.loads((folder / f"{count}-facts.json").read_text(encoding="utf-8"))
    facts = Facts(
        tuple(fields["reasons"]), tuple(fields["stubborn"]), fields["precision"], fields["names"]
    )
    as_is = recorded.pop("as_is")
    assert as_is is not None
    return Runs(as_is, **recorded, draws=draws), facts, fields["what"]


def _job(fields: Mapping[str, Any], folder: Path) -> Any:
    from tfdp.parity.runs import Job

    build, feed = _from_config(fields) if "config" in fields else _from_functions(fields, folder)
    return Job(build, feed, fields["epochs"], fields["seed"], fields["floatx"])


def _from_functions(fields: Mapping[str, Any], folder: Path) -> tuple[Callable[[], Any], ...]:
    from tfdp.parity.feeds import make_feed
    from tfdp.parity.handover import decode, find_function
    from tfdp.parity.sources import training_data

    build = find_function(fields["build"], "build_fn")
    if "function" in fields["data"]:
        make_data = find_function(fields["data"]["function"], "data")
    else:
        leaves = _arrays(folder / DATA_FILE)

        def make_data() -> Any:
            return decode(fields["data"]["structure"], leaves)

    def feed() -> Any:
        data = training_data(make_data(), batches=fields["data"].get("batches", False))
        return make_feed(data, fields["batch_size"], fields["steps"], as_in_training=False)

    return build, feed


def _from_config(fields: Mapping[str, Any]) -> tuple[Callable[[], Any], ...]:
    from tfdp.config import load_config
    from tfdp.parity.sources import config_functions

    return config_functions(load_config(fields["config"], []), fields["steps"])


def _arrays(file: Path) -> dict[str, np.ndarray]:
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def _assert_plain_keras() -> None:
    """The one device must be Keras as it comes."""
    installed = sys.modules.get("tfdp.strategies.keras_compat.install")
    if installed is not None and installed._installed:
        raise UnsupportedError(
            "build_fn or data makes a strategy of tfdp, and so the run on one device was not "
            "plain Keras.",
            hint="Let them build and compile the model only; verify makes the strategies.",
        )


if __name__ == "__main__":
    end_with_parent()
    main(Path(sys.argv[1]))
