"""The environment variables that a worker is started with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tfdp.cluster.detect import tf_config_text
from tfdp.cluster.heartbeat import HEARTBEAT_VARIABLE
from tfdp.cluster.rendezvous import START_TIMEOUT_VARIABLE, start_timeout
from tfdp.cluster.runtime import tune_runtime
from tfdp.launcher.gpus import share_gpus, visible_gpus

DEVICES_VARIABLE: Final = "TFDP_DEVICES_PER_WORKER"
RESTARTS_VARIABLE: Final = "TFDP_RESTARTS"
LOG_LEVEL: Final = 1
RESTART_PATIENCE: Final = 3
"""How many times the start time-out the workers of several machines wait after a restart."""


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
    members: Sequence[int] | None = None,
    records: Mapping[int, Path] | None = None,
    restarts: int = 0,
) -> dict[int, dict[str, str]]:
    """The environment of each worker that is started here, by its index.

    Args:
      shape: of the group.
      addresses: ``host:port`` of all workers that take part.
      indexes: the workers whose place is on this machine; each has its share of the GPUs, also
        when not all take part.
      environ: what they inherit.
      members: indexes of the workers that take part, in the order of `addresses`; None: all.
      records: file of each worker's heartbeat, by index.
      restarts: how often the group was started before.

    Raises:
      StrategyError: there are GPUs, but not enough.
    """
    gpus = share_gpus(visible_gpus(environ), len(indexes), shape.devices_per_worker)
    members = range(len(addresses)) if members is None else members
    started = [index for index in indexes if index in members]
    timeout = _start_timeout(shape, environ, restarts, alone=len(started) == len(members))
    environments = {}
    for index in started:
        own = dict(environ)
        own["TF_CONFIG"] = tf_config_text(addresses, members.index(index))
        own[RESTARTS_VARIABLE] = str(restarts)
        own.setdefault("PYTHONUNBUFFERED", "1")
        own.pop(HEARTBEAT_VARIABLE, None)  # of a launcher that has started this one
        if records is not None:
            own[HEARTBEAT_VARIABLE] = str(records[index])
        if gpus is not None:
            own["CUDA_VISIBLE_DEVICES"] = ",".join(gpus[indexes.index(index)])
        if shape.devices_per_worker is not None:
            own[DEVICES_VARIABLE] = str(shape.devices_per_worker)
        if timeout is not None:
            own[START_TIMEOUT_VARIABLE] = f"{timeout:g}"
        tune_runtime(workers_on_host=len(started), log_level=LOG_LEVEL, environ=own)
        environments[index] = own
    return environments


def _start_timeout(
    shape: GroupShape, environ: Mapping[str, str], restarts: int, *, alone: bool
) -> float | None:
    """How long workers wait for each other; None: as long as they do by themselves.

    Machines notice a failure some ten seconds apart: where TensorFlow has to find out that a
    worker of another machine is gone. So they wait longer after a restart.
    """
    if alone or not restarts:
        return shape.start_timeout_seconds
    return RESTART_PATIENCE * (shape.start_timeout_seconds or start_timeout(environ))
