"""The settings of Keras and TensorFlow that a config asks for: precision, seeds, determinism."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import keras
import tensorflow as tf

from tfdp.cluster.detect import detect_cluster
from tfdp.cluster.tf_config import ClusterInfo
from tfdp.config.strategy import StrategyConfig
from tfdp.config.training import TrainingConfig
from tfdp.strategies.factory import strategy


@contextmanager
def compute_settings(config: TrainingConfig) -> Iterator[None]:
    """Sets seeds and determinism for good, and the precision inside the block.

    Op determinism cannot be switched off again in a process.
    """
    if config.deterministic:
        tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(config.seed)
    before = keras.config.dtype_policy()
    if config.mixed_precision != "none":
        keras.config.set_dtype_policy(f"mixed_{config.mixed_precision}")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def build_strategy(
    config: StrategyConfig, must_agree: Mapping[str, str] | None = None
) -> tf.distribute.Strategy:
    """The strategy that a config describes.

    Args:
      config: the section of the config.
      must_agree: facts that have to be the same on all workers.

    Raises:
      StrategyError: the devices or cross-device ops cannot be had here.
      ClusterError: TF_CONFIG is missing or malformed.
      UnsupportedError: Keras runs on another backend, or a version that is not supported.
    """
    devices: int | tuple[str, ...] | None = config.devices
    if config.kind != "single":
        devices = config.devices_with(gpus=len(tf.config.list_physical_devices("GPU")))
    return strategy(
        config.kind,
        devices=devices,
        cross_device_ops=config.cross_device_ops,
        between=config.between,
        compression=config.compression,
        compression_rank=config.compression_rank,
        compression_ratio=config.compression_ratio,
        compression_warmup_steps=config.compression_warmup_steps,
        bucket_mb=config.bucket_mb,
        autotune=config.autotune,
        must_agree=must_agree,
    )


def cluster_of(config: StrategyConfig, environ: Mapping[str, str]) -> ClusterInfo | None:
    """The cluster that this run trains on, or None for a run of one process.

    Raises:
      ClusterError: TF_CONFIG, or what a scheduler says, is malformed.
    """
    return detect_cluster(environ) if config.kind in ("auto", "multi_worker") else None
