"""Gradients in buckets: many small tensors are reduced as few buffers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import tensorflow as tf

from tfdp.errors import StrategyError

AUTO: Final = "auto"
DEFAULT_BUCKET_BYTES = 4 * 1024 * 1024
"""Large enough that latency does not count, small enough that the first bucket is full early."""


def bucket_bytes_of(bucket_mb: float | str) -> int:
    """Bytes of a bucket of `bucket_mb` MB, of 2**20 bytes; "auto": what is best most often.

    Raises:
        StrategyError: it is neither "auto" nor a positive, finite number.
    """
    if bucket_mb == AUTO:
        return DEFAULT_BUCKET_BYTES
    is_number = isinstance(bucket_mb, (int, float)) and not isinstance(bucket_mb, bool)
    size = float(bucket_mb) if is_number else math.nan
    if not 0 < size < math.inf:
        raise StrategyError(
            f'bucket_mb={bucket_mb!r} is neither "auto" nor a positive number of MB.',
            hint='Write bucket_mb=4, or leave it at "auto".',
        )
    return max(1, round(size * 2**20))


def fill(tensors: Sequence[tf.Tensor], bucket_bytes: int) -> list[list[int]]:
    """Which tensors go into which bucket.

    Args:
        tensors: dense, in the order of the model's variables. The backward pass makes their
            gradients from the last to the first, so the first bucket holds the last tensors.
        bucket_bytes: a bucket is closed when it holds this many bytes or more. A tensor whose
            size is not known until it runs has a bucket of its own.

    Returns:
        Lists of positions in `tensors`; each bucket has one dtype.
    """
    buckets: list[list[int]] = []
    open_bucket: dict[tf.DType, tuple[list[int], int]] = {}
    for place in reversed(range(len(tensors))):
        tensor = tensors[place]
        elements = tensor.shape.num_elements()
        if elements is None:
            buckets.append([place])
            continue
        bucket, size = open_bucket.get(tensor.dtype, ([], 0))
        if not bucket:
            buckets.append(bucket)
        bucket.append(place)
        size += elements * tensor.dtype.size
        open_bucket[tensor.dtype] = (bucket, size) if size < bucket_bytes else ([], 0)
    return buckets


def reduce_in_buckets(
    tensors: Sequence[tf.Tensor],
    bucket_bytes: int,
    reduce: Callable[[Sequence[tf.Tensor]], Sequence[tf.Tensor]],
) -> list[tf.Tensor]:
    """Reduces every tensor, with one call of `reduce` for each bucket.

    Args:
        tensors: dense, of any shapes and dtypes.
        bucket_bytes: as in `fill`.
        reduce: sums vectors of one dtype over the replicas, to a vector for each; called in the
            order in which buckets fill up.

    Returns:
        The reduced tensors, in the order and with the shapes of `tensors`.
    """
    results: list[tf.Tensor | None] = [None] * len(tensors)
    for bucket in fill(tensors, bucket_bytes):
        members = [tensors[place] for place in bucket]
        shapes = [tf.shape(member) for member in members]
        parts = reduce([tf.reshape(member, [-1]) for member in members])
        for place, part, shape, member in zip(bucket, parts, shapes, members, strict=True):
            results[place] = tf.ensure_shape(tf.reshape(part, shape), member.shape)
    return [result for result in results if result is not None]
