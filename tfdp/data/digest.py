"""A number that tells batches apart, so that workers can find out that they read different ones."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import tensorflow as tf


def batch_digest(leaves: list[np.ndarray]) -> int:
    """CRC-32 of shapes, dtypes and values, without its top bit (so that it fits an int32)."""
    crc = 0
    for leaf in leaves:
        array = np.asarray(leaf)
        crc = zlib.crc32(f"{array.shape}{array.dtype}".encode(), crc)
        if array.dtype == object:
            crc = zlib.crc32(b"\0".join(bytes(item) for item in array.ravel()), crc)
        else:
            crc = zlib.crc32(np.ascontiguousarray(array).tobytes(), crc)
    return crc & 0x7FFFFFFF


def remember_first_batch(
    dataset: tf.data.Dataset, digests: list[int], salt: int = 0
) -> tf.data.Dataset:
    """The same data set; each pass over it puts the digest of its first batch into `digests`.

    Args:
        dataset: any; components that are not tensors are left out of the digest.
        digests: receives an int for each pass, before the first batch is handed out.
        salt: a number below 2**31 that the digests depend on too.
    """

    def record(*leaves: Any) -> np.int32:
        digests.append(batch_digest([np.asarray(salt), *leaves]))
        return np.int32(0)

    def look(index: tf.Tensor, batch: Any) -> Any:
        flat = tf.nest.flatten(batch, expand_composites=True)
        leaves = [leaf for leaf in flat if isinstance(leaf, tf.Tensor) and leaf.dtype != tf.variant]

        def first() -> tf.Tensor:
            return tf.numpy_function(record, leaves, tf.int32)

        done = tf.cond(tf.equal(index, 0), first, lambda: tf.constant(0, tf.int32))
        with tf.control_dependencies([done]):
            return tf.nest.map_structure(_same, batch)

    return dataset.enumerate().map(look)


def _same(leaf: Any) -> Any:
    return tf.identity(leaf) if isinstance(leaf, tf.Tensor) and leaf.dtype != tf.variant else leaf
