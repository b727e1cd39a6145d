"""Where the workers are, and the process settings that training needs. No TensorFlow here."""

from __future__ import annotations

from tfdp.cluster.detect import detect_cluster, export_tf_config
from tfdp.cluster.runtime import tune_runtime
from tfdp.cluster.tf_config import ClusterInfo, read_tf_config

__all__ = ["ClusterInfo", "detect_cluster", "export_tf_config", "read_tf_config", "tune_runtime"]
