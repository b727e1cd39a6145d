"""What commands that train have in common."""

from __future__ import annotations

import argparse
import logging
import os

from tfdp.cluster.detect import export_tf_config
from tfdp.cluster.runtime import tune_runtime, why
from tfdp.cluster.tf_config import ClusterInfo

LOG_LEVEL = 1
"""``TF_CPP_MIN_LOG_LEVEL`` of the command line: no information messages."""

_logger = logging.getLogger("tfdp.cli")


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the positional CONFIG and ``--set``."""
    parser.add_argument("config", metavar="CONFIG", help="a YAML file, as those in configs/")
    parser.add_argument(
        "--set",
        dest="overrides",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="change a key of CONFIG, as in --set training.epochs=3; the value is YAML; "
        "may be repeated",
    )


def prepare_runtime() -> ClusterInfo | None:
    """Makes the runtime settings, logs each, and returns the cluster of this process.

    A cluster that Slurm, MPI or a hosts file names is put into ``TF_CONFIG``.

    Raises:
      ClusterError: ``TF_CONFIG``, or what a scheduler has set, is malformed.
      StrategyError: TensorFlow is imported already.
    """
    cluster = export_tf_config(os.environ)
    workers_on_host = 1 if cluster is None else cluster.workers_on_host
    made = tune_runtime(workers_on_host=workers_on_host, log_level=LOG_LEVEL)
    for name, value in made.items():
        _logger.info("%s=%s: %s", name, value, why(name))
    return cluster
