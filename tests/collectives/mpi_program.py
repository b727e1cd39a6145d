"""One rank of the MPI tests: `mpiexec -n 2 python -m tests.collectives.mpi_program TASK FOLDER`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

import tfdp
from tests.collectives import worker_cases
from tests.parity.program import _end_with
from tfdp.collectives.mpi import MpiReduction
from tfdp.launcher.values import save_value


def one_device(rank: int) -> dict[str, Any]:
    results = worker_cases.contract("mpi", 1)
    made = MpiReduction()
    assert made.shares_memory
    results["reduction"] = worker_cases.reduction(made, rank)
    results["kept"] = worker_cases.kept(made, rank)
    sent = MpiReduction(share_memory=False)
    assert not sent.shares_memory
    results["sent"] = worker_cases.reduction(sent, rank)
    results["sent kept"] = worker_cases.kept(sent, rank)
    results["sent all"] = [each.numpy() for each in sent.sum_all(worker_cases.several(rank))]
    results["shared all"] = [each.numpy() for each in made.sum_all(worker_cases.several(rank))]
    try:
        branch = tf.function(
            lambda flag: tf.cond(flag, lambda: made.sum(tf.ones(1)), lambda: tf.zeros(1)),
            autograph=False,
        )
        branch(tf.constant(True))
    except tfdp.errors.UnsupportedError as error:
        results["refused by the reduction"] = str(error)
    return results


def two_devices(rank: int) -> dict[str, Any]:
    del rank
    return worker_cases.contract("mpi", 2)


def rounded_two_devices(rank: int) -> dict[str, Any]:
    del rank
    return worker_cases.contract("mpi", 2, "bf16")


def other_size(rank: int) -> dict[str, Any]:
    return _refused(rank, 3)


def other_rank(rank: int) -> dict[str, Any]:
    return _refused(1 - rank, 2)


def _refused(index: int, workers: int) -> dict[str, Any]:
    """What is raised where TF_CONFIG has this index and so many workers."""
    base = int(os.environ["TEST_BASE_PORT"])
    cluster = {"worker": [f"127.0.0.1:{base + i}" for i in range(workers)]}
    task = {"type": "worker", "index": index}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
    try:
        tfdp.strategy("multi_worker", devices=1, cross_device_ops="mpi")
    except tfdp.errors.TfdpError as error:
        return {"error": str(error), "type": type(error).__name__}
    return {}


if __name__ == "__main__":
    _end_with(os.getppid())
    own_rank = int(os.environ["PMI_RANK"])
    found = globals()[sys.argv[1]](own_rank)
    save_value(found, Path(sys.argv[2]) / str(own_rank), what="the result")
