"""Devices for a comparison: the same kind for one device as for many."""

from __future__ import annotations

import tensorflow as tf


def choose_devices(largest: int, *, hide_gpus: bool = True) -> list[str]:
    """Names of `largest` devices: GPUs if there are so many, else logical CPU devices.

    Args:
      largest: the largest number of replicas.
      hide_gpus: whether GPUs that are too few are hidden from TensorFlow, so that one device is a
        CPU too; only before TensorFlow has started.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if len(gpus) >= largest:
        return [f"GPU:{i}" for i in range(largest)]
    if gpus and hide_gpus:
        tf.config.set_visible_devices([], "GPU")
    return [f"CPU:{i}" for i in range(largest)]
