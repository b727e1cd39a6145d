"""PowerSGD: a gradient is sent as a product of two thin matrices.

Source: Vogels, Karimireddy, Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for
Distributed Optimization", NeurIPS 2019, algorithms 1 and 2. A gradient of n x m, D = sum of all
workers' d_w (see `error_feedback`), rank r:

    P <- sum_w d_w Q          n r numbers, summed over the workers
    P <- orthonormal columns of P
    Q <- sum_w d_w^T P        m r numbers, summed over the workers; kept for the next step
    the sum is taken to be P Q^T = P P^T D
    e_w <- d_w - P P^T d_w

It keeps what `error_feedback` says. A sum whose rank is r or less is reproduced (up to rounding).
|e_w| <= |d_w|, since P P^T is a projection.
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


class PowerSgd(ErrorFeedback):
    """Low-rank gradients. All of a step travel in two buffers, so nothing overlaps.

    A kernel of (..., m) is taken as a matrix of (product of the others, m), as convolutions and
    dense layers of Keras have their output channels last. What has one dimension, or would not get
    shorter, is sent whole.

    Do not use it where the link is fast: the products and the orthogonalisation take longer than
    the bytes. Workers with different processors may round the products differently, and their
    models would drift apart.

    Args:
        inner: reduces between the workers.
        rank: r above, 1 or more.
        warmup_steps: see `ErrorFeedback`.
    """

    def __init__(self, inner: WorkerReduction, rank: int = 4, warmup_steps: int = 0) -> None:
        super().__init__(inner, warmup_steps)
        self._rank = rank

    def compresses(self, shape: Sequence[int]) -> bool:
        if len(shape) < 2:
            return False
        n, m = _as_matrix(shape)
        return self._rank * (n + m) < n * m

    def basis_shape(self, shape: Sequence[int]) -> tuple[int, ...] | None:
        return (_as_matrix(shape)[1], self._rank)

    def _sum_of_one_dtype(
        self,
        tensors: Sequence[tf.Tensor],
        slots: Sequence[Slot | None],
        compress: tf.Tensor | None,
        when: tf.Tensor | None,
    ) -> list[tf.Tensor]:
        dtype = tensors[0].dtype
        low = [i for i, slot in enumerate(slots) if slot is not None]
        whole = [tensor for tensor, slot in zip(tensors, slots, strict=True) if slot is None]
        kept = [slot for slot in slots if slot is not None]
        with_debts = [
            ordered_sum([tensors[i], slot.residual.read_value()])
            for i, slot in zip(low, kept, strict=True)
        ]
        owed = [tf.reshape(each, _as_matrix(each.shape)) for each in with_debts]
        bases = [slot.basis[0].read_value() for slot in kept]

        def first() -> tf.Tensor:
            products = [d @ q for d, q in zip(owed, bases, strict=True)]
            return flatten([*whole, *products], dtype)

        sent = self._inner.sum(
            either(compress, first, lambda: flatten([*whole, *owed], dtype)), when
        )
        shapes = [tf.zeros([d.shape[0], self._rank], dtype) for d in owed]

        def second() -> tuple[tf.Tensor, ...]:
            products = unflatten(sent, [*whole, *shapes])[len(whole) :]
            lefts = [tf.linalg.qr(product).q for product in products]
            rights = [tf.matmul(d, p, transpose_a=True) for d, p in zip(owed, lefts, strict=True)]
            return (flatten(rights, dtype), *lefts, *rights)

        def nothing() -> tuple[tf.Tensor, ...]:
            return (tf.zeros([1], dtype), *shapes, *[tf.zeros_like(q) for q in bases])

        payload, *factors = either(compress, second, nothing)
        lefts, own = factors[: len(low)], factors[len(low) :]
        summed = self._inner.sum(payload, when)

        def product() -> tuple[tf.Tensor, ...]:
            rights = unflatten(summed, bases)
            totals = [_product(p, q) for p, q in zip(lefts, rights, strict=True)]
            debts = [d - _product(p, q) for d, p, q in zip(owed, lefts, own, strict=True)]
            return (*unflatten(sent, [*whole, *shapes])[: len(whole)], *totals, *debts, *rights)

        def all_was_sent() -> tuple[tf.Tensor, ...]:
            zeros = [tf.zeros_like(d) for d in owed]
            return (*unflatten(sent, [*whole, *owed]), *zeros, *bases)

        found = list(either(compress, product, all_was_sent))
        count = len(low)
        plain, found = found[: len(whole)], found[len(whole) :]
        totals, debts, rights = found[:count], found[count : 2 * count], found[2 * count :]
        for slot, debt, right in zip(kept, debts, rights, strict=True):
            keep_finite(slot.residual, tf.reshape(debt, slot.residual.shape), when)
            for copy in slot.basis:
                keep_finite(copy, right, when)
        in_order = dict(zip(low, totals, strict=True))
        rest = iter(plain)
        return [
            tf.reshape(in_order[i], tf.shape(tensor)) if i in in_order else next(rest)
            for i, tensor in enumerate(tensors)
        ]


def _as_matrix(shape: Sequence[int]) -> tuple[int, int]:
    *others, last = [int(side) for side in shape]
    return math.prod(others), last


def _product(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    return tf.matmul(left, right, transpose_b=True)
