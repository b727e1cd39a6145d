"""Somebody's own tf.data.Dataset, shared out by its files.

TensorFlow rewrites the data set so that each worker reads every n-th file. That suits a data set
that reads from files, as many as there are workers or more; whether it is one, only trying tells.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfdp.data.digest import batch_digest
from tfdp.data.split import count_rows, shard_batches
from tfdp.errors import DataError

_FILE = tf.data.experimental.AutoShardPolicy.FILE.value


def files_fault(dataset: tf.data.Dataset, workers: int) -> str | None:
    """Why the workers cannot share the files of a data set, or None if they can.

    Reads a batch, or what comes before the first one of the last worker.

    Args:
      dataset: batches of the global size.
      workers: how many there are.
    """
    try:
        last = _rewritten(dataset, workers - 1, workers)
        found = next(iter(last), None)
    except DataError as error:
        return error.message
    except tf.errors.OpError as error:
        text = str(error.message)
        if "unshardable" in text:
            return "it does not read from files"
        if "not enough" in text or "FILE based sharding" in text:
            return f"it has fewer files than the {workers} workers"
        return text.split("}} ")[-1].split(" [Op:")[0].splitlines()[0]
    if found is None:
        return (
            f"worker {workers - 1} would have no examples: there are fewer files than workers, or "
            "empty ones"
        )
    return None


def share_files(
    dataset: tf.data.Dataset, worker: int, workers: int, replicas: int
) -> tf.data.Dataset:
    """The pieces of one worker's replicas, from every n-th file.

    A batch of the global size, read from a worker's own files, makes `workers` steps: so a step
    still has about as many rows over all workers.
    """
    steps = shard_batches(_rewritten(dataset, worker, workers), 0, 1, workers)
    return shard_batches(steps.filter(_has_rows), 0, 1, replicas)


def first_digest(dataset: tf.data.Dataset) -> int:
    """A number that differs where the workers would read the files in different orders."""
    try:
        first = next(iter(dataset), None)
    except tf.errors.OpError:
        return 0  # whoever reads it for good is told
    leaves = tf.nest.flatten(first, expand_composites=True)
    return batch_digest([np.asarray(leaf) for leaf in leaves if leaf is not None])


def _rewritten(dataset: tf.data.Dataset, worker: int, workers: int) -> tf.data.Dataset:
    spec = tf.nest.flatten(dataset.element_spec)
    if not all(isinstance(leaf, tf.TensorSpec) for leaf in spec):
        raise DataError("it has components that are not plain tensors")
    variant = tf.raw_ops.AutoShardDataset(
        input_dataset=tf.data.experimental.to_variant(dataset),
        num_workers=workers,
        index=worker,
        output_types=[leaf.dtype for leaf in spec],
        output_shapes=[leaf.shape for leaf in spec],
        auto_shard_policy=_FILE,
        num_replicas=workers,
    )
    return tf.data.experimental.from_variant(variant, dataset.element_spec)


@tf.autograph.experimental.do_not_convert
def _has_rows(*batch: Any) -> tf.Tensor:
    rows = count_rows(batch)
    return tf.constant(True) if rows is None else rows > 0
