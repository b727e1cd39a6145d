"""Finds out, from the environment alone, which workers there are."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping, Sequence

from tfdp.cluster.environments import ENVIRONMENTS, Environment
from tfdp.cluster.tf_config import ClusterInfo


def detect_environment(environ: Mapping[str, str]) -> Environment | None:
    """The environment that started this process as one of a group, or None for a lone process."""
    return next((each for each in ENVIRONMENTS if each.is_present(environ)), None)


def detect_cluster(environ: Mapping[str, str]) -> ClusterInfo | None:
    """The group that this process belongs to, or None: TF_CONFIG first, then the schedulers.

    Raises:
      ClusterError: an environment is present, but what it says is incomplete or wrong.
    """
    environment = detect_environment(environ)
    return None if environment is None else environment.read(environ)


def export_tf_config(environ: MutableMapping[str, str]) -> ClusterInfo | None:
    """Like `detect_cluster`, and puts what was found into ``TF_CONFIG``, where TensorFlow looks.

    Raises:
      ClusterError: see `detect_cluster`.
    """
    cluster = detect_cluster(environ)
    if cluster is not None and not environ.get("TF_CONFIG", "").strip():
        environ["TF_CONFIG"] = tf_config_text(cluster.workers, cluster.index)
    return cluster


def tf_config_text(workers: Sequence[str], index: int) -> str:
    """``TF_CONFIG`` for one worker of a group in which all have the job "worker"."""
    return json.dumps(
        {"cluster": {"worker": list(workers)}, "task": {"type": "worker", "index": index}}
    )
