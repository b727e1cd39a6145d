"""How a global batch is shared out between replicas.

A global batch of `n` rows becomes `pieces` contiguous pieces whose sizes differ by at most one.
The rule is a function of `n` alone, so every worker computes the same cut without asking the
others, and no replica is empty as long as there are rows for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdp.errors import DataError


def piece_bounds(
    rows: tf.Tensor, piece: tf.Tensor | int, pieces: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """First row and number of rows of one piece.

    Args:
        rows: scalar int64, rows in the global batch.
        piece: scalar, which piece, in `[0, pieces)`.
        pieces: how many pieces there are.

    Returns:
        `(offset, size)`, two int64 scalars; the first `rows % pieces` pieces have one row more.
    """
    rows = tf.cast(rows, tf.int64)
    index = tf.cast(piece, tf.int64)
    base = rows // pieces
    extra = rows % pieces
    offset = index * base + tf.minimum(index, extra)
    return offset, base + tf.cast(index < extra, tf.int64)


def count_rows(batch: Any) -> tf.Tensor | None:
    """Rows of a batch: the leading dimension of its first component that has one.

    Returns:
        A scalar int64, or None where no component has a leading dimension.
    """
    for leaf in tf.nest.flatten(batch):
        rows = _leading_dimension(leaf)
        if rows is not None:
            return tf.cast(rows, tf.int64)
    return None


def static_rows(batch: Any) -> int | None:
    """Rows of a batch as far as its static shapes tell, else None."""
    for leaf in tf.nest.flatten(batch):
        shape = getattr(leaf, "shape", None)
        if shape is None:
            continue
        shape = tf.TensorShape(shape)
        if shape.rank is None:
            return None
        if shape.rank > 0:
            return None if shape[0] is None else int(shape[0])
    return None


def check_same_rows(spec: Any) -> None:
    """Refuses batches whose components are known to have different numbers of rows.

    Raises:
        DataError: says which numbers.
    """
    shapes = [tf.TensorShape(getattr(leaf, "shape", None)) for leaf in tf.nest.flatten(spec)]
    rows = [int(shape[0]) for shape in shapes if shape.rank and shape[0] is not None]
    if len(set(rows)) > 1:
        raise DataError(
            f"the components of a batch have {', '.join(map(str, rows))} rows, and each row has to "
            "be one example in all of them.",
            hint="Batch inputs, targets and weights alike: dataset.batch(global_batch_size).",
        )


def take_rows(batch: Any, offset: tf.Tensor, size: tf.Tensor) -> Any:
    """Rows `[offset, offset + size)` of every component that has rows; others pass unchanged."""
    return tf.nest.map_structure(lambda leaf: _take(leaf, offset, size), batch)


def cut_piece(batch: Any, piece: tf.Tensor | int, pieces: int) -> Any:
    """One of the pieces of a batch; a batch without rows as it is."""
    rows = count_rows(batch)
    if rows is None or pieces == 1:
        return batch
    shape_piece = _static_shape_setter(batch, pieces)
    return shape_piece(take_rows(batch, *piece_bounds(rows, piece, pieces)))


def shard_batches(
    dataset: tf.data.Dataset, worker: int, workers: int, replicas: int
) -> tf.data.Dataset:
    """This worker's share of a data set of global batches.

    Args:
        dataset: the same global batches, in the same order, on every worker.
        worker: this worker's index, in `[0, workers)`.
        workers: number of workers.
        replicas: replicas of this worker.

    Returns:
        A data set with `replicas` elements for each global batch, in the order of the local
        replicas. Replica `d` of worker `w` gets piece `d * workers + w`: Keras concatenates the
        predictions of several workers in that order.
    """
    pieces = workers * replicas
    spec = dataset.element_spec

    def piece_of(batch: tuple[Any, ...], local: tf.Tensor | int) -> Any:
        whole = batch[0] if len(batch) == 1 and not isinstance(spec, tuple) else batch
        return cut_piece(whole, local * workers + worker, pieces)

    @tf.autograph.experimental.do_not_convert
    def cut(*batch: Any) -> tf.data.Dataset:
        return tf.data.Dataset.range(replicas).map(lambda local: piece_of(batch, local))

    if replicas > 1:
        return dataset.flat_map(cut)
    # A data set for each batch would cost more than its one piece.
    return dataset.map(tf.autograph.experimental.do_not_convert(lambda *batch: piece_of(batch, 0)))


def split_rows(batch: Any, worker: int, workers: int, replicas: int) -> list[Any]:
    """This worker's pieces of one global batch in memory, one for each local replica."""
    tensors = tf.nest.map_structure(_to_tensor, batch)
    rows = count_rows(tensors)
    if rows is None:
        return [tensors] * replicas
    pieces = workers * replicas
    parts = []
    for local in range(replicas):
        offset, size = piece_bounds(rows, local * workers + worker, pieces)
        parts.append(take_rows(tensors, offset, size))
    return parts


def _to_tensor(leaf: Any) -> Any:
    if leaf is None or isinstance(leaf, (tf.RaggedTensor, tf.SparseTensor, tf.Tensor)):
        return leaf
    return tf.convert_to_tensor(leaf)


def _leading_dimension(leaf: Any) -> tf.Tensor | None:
    if isinstance(leaf, tf.RaggedTensor):
        return leaf.nrows()
    if isinstance(leaf, tf.SparseTensor):
        return leaf.dense_shape[0]
    if isinstance(leaf, tf.Tensor) and leaf.shape.rank != 0:
        return tf.shape(leaf, out_type=tf.int64)[0]
    return None


def _take(leaf: Any, offset: tf.Tensor, size: tf.Tensor) -> Any:
    if isinstance(leaf, tf.SparseTensor):
        shape = leaf.dense_shape
        start = tf.concat([[offset], tf.zeros_like(shape[1:])], axis=0)
        extent = tf.concat([[size], shape[1:]], axis=0)
        return tf.sparse.slice(leaf, start, extent)
    if _leading_dimension(leaf) is None:
        return leaf
    return leaf[offset : offset + size]


def _static_shape_setter(spec: Any, pieces: int) -> Callable[[Any], Any]:
    """Keeps static batch sizes where every piece has the same: models may rely on them."""
    rows = static_rows(spec)
    if rows is None or rows % pieces:
        return lambda piece: piece
    size = rows // pieces

    def set_shape(leaf: Any) -> Any:
        if isinstance(leaf, tf.Tensor) and leaf.shape.rank:
            leaf = tf.ensure_shape(leaf, [size, *leaf.shape[1:]])
        return leaf

    return lambda piece: tf.nest.map_structure(set_shape, piece)
