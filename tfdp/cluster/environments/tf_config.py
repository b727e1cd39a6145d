"""``TF_CONFIG``, as Kubeflow, other platforms and ``tfdp launch`` set it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tfdp.cluster.environments.base import Environment
from tfdp.cluster.tf_config import ClusterInfo, read_tf_config
from tfdp.errors import ClusterError


class TfConfigEnvironment(Environment):
    """The variable is set and not blank."""

    name: ClassVar[str] = "TF_CONFIG"

    def is_present(self, environ: Mapping[str, str]) -> bool:
        return bool(environ.get("TF_CONFIG", "").strip())

    def read(self, environ: Mapping[str, str]) -> ClusterInfo:
        cluster = read_tf_config(environ)
        if cluster is None:
            raise ClusterError("TF_CONFIG is not set")
        return cluster
