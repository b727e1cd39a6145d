"""Compression that sends a part of the gradients and keeps the rest for later steps.

With d_w = g_w + e_w, worker w's gradient and what it still owes, a step sends C(d_w) and keeps

    e_w <- d_w - C(d_w)                                                     (error feedback)

so that over any number of steps, the sum of what was sent and what is still owed is the sum of all
gradients: nothing is lost, some of it is late. That is the equivalence these keep; a single step is
not what one device would make. (Stich et al., "Sparsified SGD with Memory", 2018; Karimireddy et
al., "Error Feedback Fixes SignSGD", 2019.)

What a worker owes is state: one variable for each gradient, part of checkpoints. On another number
of replicas the first takes over the debts of all, so the sum stays right there, too.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from tfdp.collectives.between_workers import WorkerReduction

COMPRESSIBLE: Final = (tf.float32, tf.float64)


@dataclass(frozen=True)
class Slot:
    """The state of one gradient on this worker.

    Attributes:
        residual: what is owed, of the gradient's shape.
        basis: what the method keeps besides, the same on all workers: a copy on each local device;
            empty where it keeps nothing.
    """

    residual: tf.Variable
    basis: tuple[tf.Variable, ...] = ()


@dataclass(frozen=True)
class CompressionState:
    """What a step needs to know besides its gradients.

    Attributes:
        iteration: scalar integer tensor, steps done so far.
        slots: one for each gradient; None for one that is sent whole.
    """

    iteration: tf.Tensor
    slots: Sequence[Slot | None]

    def of(self, places: Sequence[int]) -> CompressionState:
        """The same for some of the gradients."""
        return CompressionState(self.iteration, [self.slots[place] for place in places])


class ErrorFeedback(WorkerReduction):
    """Another reduction, through which gradients that have a slot go compressed.

    Everything else passes unchanged.

    Args:
        inner: reduces between the workers.
        warmup_steps: first steps, in which gradients are sent whole.
    """

    def __init__(self, inner: WorkerReduction, warmup_steps: int = 0) -> None:
        self._inner = inner
        self._warmup_steps = warmup_steps

    @property
    def rank(self) -> int | None:
        return self._inner.rank

    def sum(self, vector: tf.Tensor, when: tf.Tensor | None = None) -> tf.Tensor:
        return self._inner.sum(vector, when)

    def sum_all(
        self, vectors: Sequence[tf.Tensor], when: tf.Tensor | None = None
    ) -> list[tf.Tensor]:
        return self._inner.sum_all(vectors, when)

    def gather(self, rows: tf.Tensor) -> tf.Tensor:
        return self._inner.gather(rows)

    @abc.abstractmethod
    def compresses(self, shape: Sequence[int]) -> bool:
        """Whether a gradient of this shape gets shorter."""

    def basis_shape(self, shape: Sequence[int]) -> tuple[int, ...] | None:
        """Shape of what is kept besides the residual, or None."""
        del shape
        return None

    def sum_compressed(
        self, tensors: Sequence[tf.Tensor], state: CompressionState, when: tf.Tensor | None = None
    ) -> list[tf.Tensor]:
        """Sums gradients over the workers, as far as they are sent, and updates the slots.

        Args:
            tensors: dense, of known shapes where they have a slot.
            state: of the step.
            when: as in `WorkerReduction.sum`; where it is False the slots stay as they are.

        Returns:
            The sums, the same bits on every worker whose processor computes alike.
        """
        results: list[tf.Tensor | None] = [None] * len(tensors)
        compress = None
        if self._warmup_steps:
            compress = tf.cast(state.iteration, tf.int64) >= self._warmup_steps
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
            places = [i for i, tensor in enumerate(tensors) if tensor.dtype == dtype]
            slots = state.of(places).slots
            summed = self._sum_of_one_dtype([tensors[i] for i in places], slots, compress, when)
            for place, total in zip(places, summed, strict=True):
                results[place] = tf.ensure_shape(total, tensors[place].shape)
        return [result for result in results if result is not None]

    @abc.abstractmethod
    def _sum_of_one_dtype(
        self,
        tensors: Sequence[tf.Tensor],
        slots: Sequence[Slot | None],
        compress: tf.Tensor | None,
        when: tf.Tensor | None,
    ) -> list[tf.Tensor]:
        """As `sum_compressed`; `compress` is False in the warm-up, None where there is none."""


def keep_finite(variable: tf.Variable, value: tf.Tensor, when: tf.Tensor | None) -> None:
    """Assigns, unless the value has a NaN or an infinity, which would never leave again."""
    good = tf.reduce_all(tf.math.is_finite(value))
    if when is not None:
        good = tf.logical_and(good, when)
    variable.assign(tf.where(good, value, variable.read_value()))


def flatten(tensors: Sequence[tf.Tensor], dtype: tf.DType) -> tf.Tensor:
    """All elements as one vector; one zero where there are none, since something is sent."""
    if not tensors:
        return tf.zeros([1], dtype)
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)


def unflatten(vector: tf.Tensor, like: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The inverse of `flatten`."""
    if not like:
        return []
    sizes = [tf.size(each) for each in like]
    parts = tf.split(vector, tf.stack(sizes), num=len(sizes))
    return [tf.reshape(part, tf.shape(each)) for part, each in zip(parts, like, strict=True)]


def either(condition: tf.Tensor | None, true: Callable[[], Any], false: Callable[[], Any]) -> Any:
    """`tf.cond`, or the first branch where there is nothing to decide."""
    return true() if condition is None else tf.cond(condition, true, false)
