"""One process of a contestant that runs TensorFlow: tfdp, or the stock libraries beside it.

Its arguments are the job as JSON and the path of the socket. Nothing here imports TensorFlow
before the job's settings of the process are made.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from tfdp.bench.peers.turns import Turn, serve
from tfdp.cluster.detect import tf_config_text
from tfdp.cluster.runtime import tune_runtime


def main(arguments: Sequence[str]) -> int:
    """Serves turns until told to end; returns the exit code."""
    job = json.loads(arguments[0])
    rank = _rank(job)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if job.get("cores"):
        os.sched_setaffinity(0, job["cores"][rank])
    elif job.get("tuned", True):
        tune_runtime(workers_on_host=job.get("on_host", len(job["addresses"]) or 1))
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1")
    if len(job["addresses"]) > 1:
        os.environ["TF_CONFIG"] = tf_config_text(job["addresses"], rank)
        os.environ.setdefault("TFDP_START_TIMEOUT", "120")
    else:
        os.environ.pop("TF_CONFIG", None)
    return serve(arguments[1], rank, lambda: _prepare(job))


def _rank(job: dict[str, Any]) -> int:
    if not job.get("mpi"):
        return int(job.get("rank", 0))
    from mpi4py import MPI

    return int(MPI.COMM_WORLD.Get_rank())


def _prepare(job: dict[str, Any]) -> Turn:
    if job["library"] == "tfdp":
        from tfdp.bench.peers.tfdp_subject import TfdpSubject

        return TfdpSubject(job).take
    if job["library"] == "timeline":
        from tfdp.bench.peers.timeline_subject import TimelineSubject

        return TimelineSubject(job).take
    if job["library"] == "keras":
        from tfdp.bench.peers.keras_subject import KerasSubject

        return KerasSubject(job).take
    from tfdp.bench.peers.stock_subject import StockSubject

    return StockSubject(job).take


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
