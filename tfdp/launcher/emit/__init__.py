"""Files for schedulers: the same job, described to Slurm or to Kubernetes."""

from __future__ import annotations

from tfdp.launcher.emit.job import Job
from tfdp.launcher.emit.kubernetes import kubernetes_manifest
from tfdp.launcher.emit.slurm import slurm_script

__all__ = ["Job", "kubernetes_manifest", "slurm_script"]
