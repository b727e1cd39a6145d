"""The comparison in one process, for functions that no other process can import."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tfdp.parity.devices import choose_devices
from tfdp.parity.feeds import Feed, make_feed
from tfdp.parity.handover import find_function, function_reference
from tfdp.parity.report import Report
from tfdp.parity.runs import Job, run_one_device, run_replicas
from tfdp.parity.sources import first_batches, training_data
from tfdp.parity.verdicts import verdicts


def run_here(
    build_fn: Callable[[], Any] | str,
    data: Any,
    counts: tuple[int, ...],
    fields: Mapping[str, Any],
    tolerance: float | None,
) -> Report:
    """Runs one device, then each number of replicas; see `tfdp.verify`.

    Raises:
      StrategyError: there are too few devices in this process.
    """
    from tfdp.strategies.devices import local_devices

    devices = choose_devices(max(counts), hide_gpus=False)
    local_devices(devices)  # before anything runs, or the CPU cannot be split any more
    job = Job(
        _function(build_fn, "build_fn"),
        _feed(data, fields),
        fields["epochs"],
        fields["seed"],
        fields["floatx"],
    )
    with tf.device(devices[0]):
        one = run_one_device(job, comparable=max(counts) > 1)
    found = []
    for count in counts:
        many = run_replicas(job, devices[:count])
        found += verdicts(one.runs, many.runs, count, one.facts, tolerance)
    return Report(tuple(found), f"{one.what}, {one.facts.precision}, in one process")


def _function(function: Callable[..., Any] | str, name: str) -> Callable[..., Any]:
    if isinstance(function, str):
        return find_function(function_reference(function, name), name)
    return function


def _feed(data: Any, fields: Mapping[str, Any]) -> Callable[[], Feed]:
    steps = fields["steps"]
    if isinstance(data, str) or callable(data):
        make = _function(data, "data")
    elif hasattr(data, "element_spec") or hasattr(data, "on_epoch_end"):
        batches = first_batches(data, steps)
        return lambda: make_feed(
            training_data(batches, batches=True),
            fields["batch_size"],
            steps,
            as_in_training=False,
        )
    else:

        def make() -> Any:
            return data

    return lambda: make_feed(
        training_data(make()), fields["batch_size"], steps, as_in_training=False
    )
