"""A TFJob for the Kubeflow training operator, which gives each worker its TF_CONFIG.

The fields are those of the custom resource ``tfjobs.kubeflow.org``, version v1. The operator
recognises the container by its name and its port by the port's name.
"""

from __future__ import annotations

import math
from typing import Any

import yaml

from tfdp.cluster.rendezvous import START_TIMEOUT_VARIABLE
from tfdp.errors import ConfigError
from tfdp.launcher.emit.job import Job

CONTAINER = "tensorflow"
PORT_NAME = "tfjob-port"
PORT = 2222

_START_TIMEOUT_SECONDS = 600.0
"""Pods of one job start minutes apart, when nodes have to fetch the image first."""


def kubernetes_manifest(job: Job) -> str:
    """The manifest, YAML.

    Raises:
      ConfigError: there is no image.
    """
    if job.image is None:
        raise ConfigError(
            "--emit kubernetes needs the container image that the workers run in",
            hint="Name one in which tfdp and your program are installed: --image REGISTRY/NAME:TAG",
        )
    # One worker that fails takes the others with it: all of them have to be started again. So have
    # those that were told to end, have saved and left with 75; "ExitCode" would take that, as any
    # code below 128, for a failure that comes back.
    replica = {
        "replicas": job.workers,
        "restartPolicy": "OnFailure" if job.max_restarts else "Never",
        "template": {
            "spec": {
                "terminationGracePeriodSeconds": math.ceil(job.grace_seconds),
                "containers": [_container(job)],
            }
        },
    }
    manifest = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": job.name},
        "spec": {
            "runPolicy": {
                "cleanPodPolicy": "Running",
                "backoffLimit": job.max_restarts * job.workers,
            },
            "successPolicy": "AllWorkers",
            "tfReplicaSpecs": {"Worker": replica},
        },
    }
    return str(yaml.safe_dump(manifest, sort_keys=False))


def _container(job: Job) -> dict[str, Any]:
    timeout = job.start_timeout_seconds or _START_TIMEOUT_SECONDS
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": job.image,
        # The operator does not tell a pod that it is not the first: each start has to find out.
        "command": [*job.command, *job.resume],
        "env": [
            {"name": START_TIMEOUT_VARIABLE, "value": f"{timeout:g}"},
            {"name": "PYTHONUNBUFFERED", "value": "1"},
        ],
        "ports": [{"name": PORT_NAME, "containerPort": PORT}],
    }
    if job.gpus_per_worker is not None:
        container["resources"] = {"limits": {"nvidia.com/gpu": job.gpus_per_worker}}
    return container
