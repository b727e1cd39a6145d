"""Remembers, on each replica, the first step whose loss or gradients were not finite.

One reduction for the whole batch turns a single NaN into a NaN on every replica, so where it came
from can only be seen before. What is seen there is kept in one variable of four numbers on each
replica, which nobody reads while all is well: no synchronisation with the host, no collective.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

_ATTRIBUTE = "_tfdp_finite_recorder"
_STEPS, _GRADIENT, _TENSOR, _LOSS = range(4)


class Seen(NamedTuple):
    """What one replica has seen since the recorder was made or reset.

    Attributes:
        steps: steps taken.
        gradient: number of the first step, from 1, with a gradient that was not finite; 0: none.
        tensor: index of the first such gradient in that step, as the optimizer numbers the
            trainable variables.
        loss: number of the first step whose loss, on this replica's rows, was not finite; 0: none.
    """

    steps: int
    gradient: int
    tensor: int
    loss: int


class FiniteRecorder:
    """What `note_loss` and `note_gradients` have seen, replica by replica.

    Args:
        strategy: whose replicas.
        gradients: whether gradients are looked at. Costs one pass over them.
        loss_counts: whether a step is counted where its loss is noted, rather than its gradients:
            for an optimizer that leaves out the updates of some steps.
    """

    def __init__(
        self, strategy: tf.distribute.Strategy, *, gradients: bool, loss_counts: bool
    ) -> None:
        self.gradients = gradients
        self.loss_counts = loss_counts
        self._strategy = strategy
        with tf.init_scope(), strategy.scope():
            # int64, since TensorFlow keeps int32 variables of a GPU in the memory of the host.
            self._state = tf.Variable(
                tf.zeros([len(Seen._fields)], tf.int64),
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.NONE,
                name="finite_recorder",
            )

    def note_loss(self, loss: Any, rows: tf.Tensor | None) -> None:
        """In a replica: looks at the loss of its rows.

        Args:
            loss: of any shape and floating dtype.
            rows: scalar, rows of this replica: the loss of none may be NaN. None: some for sure.
        """
        bad = tf.logical_not(_all_finite(tf.stop_gradient(tf.convert_to_tensor(loss))))
        if rows is not None:
            bad = tf.logical_and(bad, rows > 0)
        state = self._state.read_value()
        if self.loss_counts:
            state += tf.one_hot(_STEPS, len(Seen._fields), dtype=tf.int64)
        step = state[_STEPS] if self.loss_counts else state[_STEPS] + 1
        first = tf.logical_and(bad, tf.equal(state[_LOSS], 0))
        found = tf.stack([tf.zeros_like(step)] * _LOSS + [step])
        self._state.assign(tf.where(first, state + found, state))

    def note_gradients(self, gradients: Sequence[Any], indices: Sequence[int]) -> None:
        """In a replica: looks at its own gradients, before they are reduced.

        Args:
            gradients: tensors or IndexedSlices.
            indices: of their variables, as the optimizer numbers them.
        """
        if self.loss_counts:
            return
        state = self._state.read_value()
        state += tf.one_hot(_STEPS, len(Seen._fields), dtype=tf.int64)
        if self.gradients and len(gradients):
            order = sorted(range(len(indices)), key=lambda place: indices[place])
            finite = _each_finite([gradients[place] for place in order])
            bad = tf.logical_not(tf.reduce_all(finite))
            first = tf.logical_and(bad, tf.equal(state[_GRADIENT], 0))
            which = tf.argmin(tf.cast(finite, tf.float32))
            tensor = tf.gather(tf.constant([indices[place] for place in order], tf.int64), which)
            zero = tf.zeros_like(tensor)
            found = tf.stack([zero, state[_STEPS], tensor, zero])
            state = tf.where(first, state + found, state)
        self._state.assign(state)

    @property
    def replicas(self) -> int:
        """Of this process."""
        return len(self._parts())

    def seen(self) -> list[Seen]:
        """Of each replica of this process; waits for the steps that are under way."""
        return [Seen(*(int(n) for n in part.numpy())) for part in self._parts()]

    def reset(self) -> None:
        """Forgets everything."""
        for part in self._parts():
            part.assign(tf.zeros_like(part))

    def _parts(self) -> Sequence[Any]:
        return tuple(self._strategy.experimental_local_results(self._state))


def recorder_of(optimizer: Any) -> FiniteRecorder | None:
    """The recorder that looks at the optimizer's steps, if it has one."""
    return getattr(optimizer, _ATTRIBUTE, None)


def attach_recorder(model: Any, *, gradients: bool) -> FiniteRecorder:
    """Has a compiled Keras model's steps recorded from now on; what was seen before is forgotten.

    With loss scaling (`LossScaleOptimizer`) gradients overflow every now and then, which the
    optimizer deals with; so only the loss is looked at.
    """
    from keras.optimizers import LossScaleOptimizer

    scaled = isinstance(model.optimizer, LossScaleOptimizer)
    gradients = gradients and not scaled
    recorder = recorder_of(model.optimizer)
    if recorder is None or recorder.gradients != gradients:
        recorder = FiniteRecorder(
            model.distribute_strategy, gradients=gradients, loss_counts=scaled
        )
        # Not by the optimizer's own __setattr__, which would make it part of what is saved.
        object.__setattr__(model.optimizer, _ATTRIBUTE, recorder)
        model.train_function = None  # one that is traced already has no recorder in it
    recorder.reset()
    return recorder


def _each_finite(tensors: Sequence[Any]) -> tf.Tensor:
    """Booleans, one for each tensor.

    A sum reads a tensor once and writes nothing, so the exact look, which does both, is kept for
    steps in which a sum is not finite; that may also be because finite numbers overflow in it.
    """
    sums = tf.stack([tf.cast(tf.reduce_sum(_values(each)), tf.float64) for each in tensors])
    return tf.cond(
        tf.reduce_all(tf.math.is_finite(sums)),
        lambda: tf.ones([len(tensors)], tf.bool),
        lambda: tf.stack([_all_finite(each) for each in tensors]),
    )


def _values(tensor: Any) -> tf.Tensor:
    return tensor.values if isinstance(tensor, tf.IndexedSlices) else tensor


def _all_finite(tensor: Any) -> tf.Tensor:
    """Boolean scalar, exact (a sum of finite numbers may overflow)."""
    return tf.reduce_all(tf.math.is_finite(_values(tensor)))
