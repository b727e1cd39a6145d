"""Top-k: the largest elements of every gradient are sent, with their places.

Source: Lin et al., "Deep Gradient Compression", ICLR 2018 (without its momentum correction); Stich
et al., "Sparsified SGD with Memory", NeurIPS 2018. Of a gradient with n elements each worker sends
the k = ceil(ratio n) of d_w (see `error_feedback`) with the largest absolute values, and keeps the
others. It keeps what `error_feedback` says, exactly: what was sent is the element itself. |e_w| <=
sqrt(1 - k/n) |d_w|.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf

from tfdp.collectives.between_workers import WorkerReduction
from tfdp.collectives.error_feedback import (
    ErrorFeedback,
    Slot,
    either,
    flatten,
    keep_finite,
    unflatten,
)
from tfdp.collectives.ordered import ordered_sum

_SMALLEST = 1024


class TopK(ErrorFeedback):
    """Sparse gradients: values and places are gathered, N k of each for N workers.

    Gradients of fewer than 1024 elements are sent whole. Do not use it where the link is fast:
    finding the largest elements takes longer than sending all.

    Args:
        inner: reduces between the workers.
        ratio: k / n, above 0 and below 1.
        warmup_steps: see `ErrorFeedback`.
    """

    def __init__(self, inner: WorkerReduction, ratio: float = 0.01, warmup_steps: int = 0) -> None:
        super().__init__(inner, warmup_steps)
        self._ratio = ratio

    def compresses(self, shape: Sequence[int]) -> bool:
        size = math.prod(shape)
        return size >= _SMALLEST and 2 * self._count(size) < size

    def _count(self, size: int) -> int:
        return max(1, math.ceil(self._ratio * size))

    def _sum_of_one_dtype(
        self,
        tensors: Sequence[tf.Tensor],
        slots: Sequence[Slot | None],
        compress: tf.Tensor | None,
        when: tf.Tensor | None,
    ) -> list[tf.Tensor]:
        dtype = tensors[0].dtype
        sparse = [i for i, slot in enumerate(slots) if slot is not None]
        whole = [tensor for tensor, slot in zip(tensors, slots, strict=True) if slot is None]
        kept = [slot for slot in slots if slot is not None]
        owed = [
            tf.reshape(ordered_sum([tensors[i], slot.residual.read_value()]), [-1])
            for i, slot in zip(sparse, kept, strict=True)
        ]
        dense = self._inner.sum(
            either(
                compress,
                lambda: flatten(whole, dtype),
                lambda: flatten([*whole, *owed], dtype),
            ),
            when,
        )
        sends = _both(compress, when)
        totals, debts = self._exchange(owed, sends)

        def sparse_results() -> tuple[tf.Tensor, ...]:
            return (*unflatten(dense, whole), *totals, *debts)

        def all_was_sent() -> tuple[tf.Tensor, ...]:
            return (*unflatten(dense, [*whole, *owed]), *[tf.zeros_like(d) for d in owed])

        found = list(either(compress, sparse_results, all_was_sent))
        plain, found = found[: len(whole)], found[len(whole) :]
        totals, debts = found[: len(kept)], found[len(kept) :]
        for slot, debt in zip(kept, debts, strict=True):
            keep_finite(slot.residual, tf.reshape(debt, slot.residual.shape), when)
        in_order = dict(zip(sparse, totals, strict=True))
        rest = iter(plain)
        return [
            tf.reshape(in_order[i], tf.shape(tensor)) if i in in_order else next(rest)
            for i, tensor in enumerate(tensors)
        ]

    def _exchange(
        self, owed: Sequence[tf.Tensor], sends: tf.Tensor | None
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """The sums of what all workers send of these vectors, and what this one does not send."""
        if not owed:
            return [], []
        sizes = [int(d.shape[0]) for d in owed]
        places = tf.int32 if sum(sizes) < 2**31 else tf.int64
        starts = [sum(sizes[:i]) for i in range(len(sizes))]

        def largest() -> tuple[tf.Tensor, ...]:
            values, indices, debts = [], [], []
            for d, size, start in zip(owed, sizes, starts, strict=True):
                chosen = tf.math.top_k(tf.abs(d), self._count(size), sorted=False).indices
                sent = tf.gather(d, chosen)
                # A NaN may not be among the chosen, and everybody has to hear of it.
                fine = tf.reduce_all(tf.math.is_finite(d))
                values.append(tf.where(fine, sent, tf.constant(math.nan, d.dtype)))
                indices.append(tf.cast(chosen, places) + start)
                zeros = tf.zeros_like(sent)
                rest = tf.tensor_scatter_nd_update(d, chosen[:, tf.newaxis], zeros)
                debts.append(tf.where(fine, rest, d))
            return (tf.concat(values, 0), tf.concat(indices, 0), *debts)

        def none() -> tuple[tf.Tensor, ...]:
            return (tf.zeros([0], owed[0].dtype), tf.zeros([0], places), *map(tf.identity, owed))

        values, indices, *debts = either(sends, largest, none)
        everyones, everywhere = self._inner.gather(values), self._inner.gather(indices)
        total = tf.scatter_nd(
            everywhere[:, tf.newaxis], everyones, tf.constant([sum(sizes)], places)
        )
        return list(tf.split(total, sizes)), debts


def _both(one: tf.Tensor | None, other: tf.Tensor | None) -> tf.Tensor | None:
    if one is None or other is None:
        return other if one is None else one
    return tf.logical_and(one, other)
