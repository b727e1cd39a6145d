"""What commands that train have in common."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Sequence
from typing import Any

from tfdp.cluster.detect import export_tf_config
from tfdp.cluster.runtime import tune_runtime, why
from tfdp.cluster.tf_config import ClusterInfo

LOG_LEVEL = 1
"""``TF_CPP_MIN_LOG_LEVEL`` of the command line: no information messages."""

_logger = logging.getLogger("tfdp.cli")


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the positional CONFIG and ``--set``."""
    parser.add_argument("config", metavar="CONFIG", help="a YAML file, as those in configs/")
    add_set_argument(
        parser,
        "change a key of CONFIG, as in --set training.epochs=3; the value is YAML; may be repeated",
    )


def add_set_argument(parser: Any, help_text: str) -> None:
    """Adds ``--set``, whose values come as `overrides`, to a parser or a group of one."""
    parser.add_argument(
        "--set",
        dest="overrides",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help=help_text,
    )


RESUME_CHOICES = ("always", "auto", "never")


def add_resume_argument(parser: Any) -> None:
    """Adds ``--resume``."""
    parser.add_argument(
        "--resume",
        nargs="?",
        const="always",
        default="never",
        choices=RESUME_CHOICES,
        help="go on from the last checkpoint of the run; auto: if there is a run, else start one",
    )


def spell_resume_out(arguments: Sequence[str]) -> list[str]:
    """The arguments, with ``--resume`` as ``--resume=always`` where no choice follows it.

    Else argparse takes whatever follows for its value: in ``--resume train.yaml`` the config.
    """
    spelled = list(arguments)
    end = spelled.index("--") if "--" in spelled else len(spelled)
    for place in range(end):
        follows = spelled[place + 1] if place + 1 < end else ""
        if spelled[place] == "--resume" and follows not in RESUME_CHOICES:
            spelled[place] = "--resume=always"
    return spelled


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
