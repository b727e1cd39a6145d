"""Reads ``TF_CONFIG``, and refuses what TensorFlow would hang or crash on.

The format is TensorFlow's own::

    {"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}

A job "chief" with one address may stand beside "worker"; it is then worker 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfdp.cluster.address import host_of, problem_with_address, same_address
from tfdp.errors import ClusterError

_JOBS = ("chief", "worker")

_EXAMPLE = (
    'TF_CONFIG should look like {"cluster": {"worker": ["host1:2222", "host2:2222"]}, '
    '"task": {"type": "worker", "index": 0}}, with another index in each worker.'
)


@dataclass(frozen=True)
class ClusterInfo:
    """The workers of a cluster, and which of them this process is.

    Attributes:
      workers: ``host:port`` of every worker, the chief first if there is one.
      index: this process's position in `workers`. Not ``task.index`` of TF_CONFIG: with a chief,
        "worker" number 0 has index 1.
      task_type: this process's job, "worker" or "chief".
    """

    workers: tuple[str, ...]
    index: int
    task_type: str

    @property
    def is_chief(self) -> bool:
        """Whether this worker is the one that writes files: the one with index 0."""
        return self.index == 0

    @property
    def address(self) -> str:
        """``host:port`` of this worker."""
        return self.workers[self.index]

    @property
    def workers_on_host(self) -> int:
        """How many workers, this one included, have the same host in their address."""
        own = host_of(self.address)
        return sum(host_of(worker) == own for worker in self.workers)


def read_tf_config(environ: Mapping[str, str]) -> ClusterInfo | None:
    """The cluster that ``TF_CONFIG`` in `environ` names, or None where it is not set or blank.

    Raises:
      ClusterError: it is malformed in any way.
    """
    text = environ.get("TF_CONFIG", "")
    if not text.strip():
        return None
    config = _parse(text)
    chief, workers = _jobs(config)
    everyone = (*chief, *workers)
    _check_addresses(everyone)
    return ClusterInfo(everyone, *_task(config, len(chief), len(workers)))


def _fail(problem: str) -> ClusterError:
    return ClusterError(f"TF_CONFIG {problem}", hint=_EXAMPLE)


def _parse(text: str) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _fail(f"is not JSON ({error}): {_short(text)}") from None
    if not isinstance(config, dict):
        raise _fail(f"must be a JSON object, got {_short(text)}")
    return config


def _jobs(config: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The addresses of the chief (none or one) and of the workers."""
    cluster = config.get("cluster")
    if not isinstance(cluster, dict) or not cluster:
        raise _fail(f'has no "cluster" object, got {_short(cluster)}')
    for job in cluster:
        if job not in _JOBS:
            raise _fail(
                f'names the job "{job}"; data-parallel training has only '
                f"{' and '.join(_JOBS)} (no parameter servers or evaluators)"
            )
    chief = _addresses("chief", cluster["chief"]) if "chief" in cluster else []
    if len(chief) > 1:
        raise _fail(f"names {len(chief)} chiefs, there can be only one: {', '.join(chief)}")
    if "worker" not in cluster and not chief:
        raise _fail('has no list of workers at "cluster", "worker"')
    return chief, _addresses("worker", cluster["worker"]) if "worker" in cluster else []


def _addresses(job: str, addresses: Any) -> list[str]:
    if not isinstance(addresses, list) or not addresses:
        raise _fail(f'must have a list of addresses for "{job}", got {_short(addresses)}')
    for address in addresses:
        if not isinstance(address, str):
            raise _fail(f'has an address of "{job}" that is no string: {_short(address)}')
    return addresses


def _check_addresses(addresses: tuple[str, ...]) -> None:
    for number, address in enumerate(addresses):
        if (problem := problem_with_address(address)) is not None:
            raise _fail(f'has the address "{address}": {problem}')
        for earlier in addresses[:number]:
            if same_address(earlier, address):
                both = address if earlier == address else f"{earlier} and {address}"
                raise _fail(f"names one address for two workers: {both}")


def _task(config: dict[str, Any], chiefs: int, workers: int) -> tuple[int, str]:
    """This process's index among all workers, and its job."""
    task = config.get("task")
    if not isinstance(task, dict):
        raise _fail(f'has no "task" object, got {_short(task)}: which worker is this?')
    job = task.get("type")
    present = [name for name, count in (("chief", chiefs), ("worker", workers)) if count]
    if job not in present:
        raise _fail(f"has the task type {_short(job)}, but the cluster has: {', '.join(present)}")
    index = task.get("index")
    if type(index) is not int:
        raise _fail(f'must have an integer at "task", "index", got {_short(index)}')
    count = chiefs if job == "chief" else workers
    if not 0 <= index < count:
        raise _fail(
            f'has the task index {index}, but job "{job}" has {count} '
            f"task{'s' if count > 1 else ''}: 0 to {count - 1}"
        )
    return (index if job == "chief" else chiefs + index), job


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    text = text if len(text) <= 80 else f"{text[:77]}..."
    return f'"{text}"' if isinstance(value, str) else text
