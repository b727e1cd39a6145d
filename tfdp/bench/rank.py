"""One MPI rank of the benchmark. Its argument is the folder of the job."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tfdp.cluster.detect import tf_config_text
from tfdp.launcher.values import save_value


def main(arguments: list[str]) -> int:
    """Times, and writes the seconds to ``result-RANK``; returns the exit code.

    Raises:
      TfdpError: the ranks cannot form a group, or the reducer refuses.
    """
    from mpi4py import MPI

    folder = Path(arguments[0])
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    rank = MPI.COMM_WORLD.Get_rank()
    os.environ["TF_CONFIG"] = tf_config_text(job["addresses"], rank)

    from tfdp.bench.timing import time_in_worker

    seconds = time_in_worker(*job["arguments"])
    save_value(seconds, folder / f"result-{rank}", what="the times")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
