"""The environment variables that a worker is started with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tfdp.cluster.detect import tf_config_text
from tfdp.cluster.rendezvous import START_TIMEOUT_VARIABLE
from tfdp.cluster.runtime import tune_runtime
from tfdp.launcher.gpus import share_gpus, visible_gpus

DEVICES_VARIABLE: Final = "TFDP_DEVICES_PER_WORKER"
RESTARTS_VARIABLE: Final = "TFDP_RESTARTS"
LOG_LEVEL: Final = 1


@dataclass(frozen=True)
class GroupShape:
    """What is the same in every attempt to run a group.

    Attributes:
      workers: how many workers are started here.
      devices_per_worker: replicas in each; None: all GPUs that fall to it, or one CPU device.
      start_timeout_seconds: how long the workers wait for each other; None: the default.
    """

    workers: int
    devices_per_worker: int | None = None
    start_timeout_seconds: float | None = None


def worker_environments(
    shape: GroupShape,
    addresses: Sequence[str],
    indexes: Sequence[int],
    environ: Mapping[str, str],
    *,
    restarts: int = 0,
) -> list[dict[str, str]]:
    """One environment for each worker that is started here.

    Args:
      shape: of the group.
      addresses: ``host:port`` of all workers.
      indexes: which of them are started here.
      environ: what they inherit.
      restarts: how often the group was started before.

    Raises:
      StrategyError: there are GPUs, but not enough.
    """
    gpus = share_gpus(visible_gpus(environ), len(indexes), shape.devices_per_worker)
    environments = []
    for position, index in enumerate(indexes):
        own = dict(environ)
        own["TF_CONFIG"] = tf_config_text(addresses, index)
        own[RESTARTS_VARIABLE] = str(restarts)
        own.setdefault("PYTHONUNBUFFERED", "1")
        if gpus is not None:
            own["CUDA_VISIBLE_DEVICES"] = ",".join(gpus[position])
        if shape.devices_per_worker is not None:
            own[DEVICES_VARIABLE] = str(shape.devices_per_worker)
        if shape.start_timeout_seconds is not None:
            own[START_TIMEOUT_VARIABLE] = f"{shape.start_timeout_seconds:g}"
        tune_runtime(workers_on_host=len(indexes), log_level=LOG_LEVEL, environ=own)
        environments.append(own)
    return environments
