"""Optimizers that reduce once, before clipping, and decide alike on all replicas.

Keras clips a replica's own gradient and reduces afterwards, inside a `tf.cond` where gradients
are accumulated. Here the order is: weight by rows, accumulate, reduce, clip, update.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from keras.src import backend, ops
from keras.src.backend.tensorflow.optimizer import TFOptimizer
from keras.src.optimizers import base_optimizer
from keras.src.optimizers.loss_scale_optimizer import LossScaleOptimizer

from tfdp.collectives.error_feedback import CompressionState
from tfdp.errors import UnsupportedError
from tfdp.strategies.keras_compat import compression_slots
from tfdp.strategies.keras_compat import tensorflow_parts as tfp
from tfdp.strategies.recorder import recorder_of
from tfdp.strategies.step import ReplicaStep, current_step

_log = logging.getLogger("tfdp")
_Base = base_optimizer.BaseOptimizer
_stock_apply = _Base.apply
_stock_apply_gradients = _Base._backend_apply_gradients
_stock_all_reduce = TFOptimizer._all_reduce_sum_gradients
_stock_scale_loss = _Base.scale_loss
_stock_scaled_apply = LossScaleOptimizer._common_apply
_stock_dynamic_scale_loss = LossScaleOptimizer.scale_loss
_stock_build = _Base.build
_stock_add_from_reference = TFOptimizer.add_variable_from_reference


def scale_loss(self: Any, loss: Any) -> Any:
    """Keras' loss scaling, and this replica's share of the gradient."""
    _record_loss(self, loss)
    return _stock_scale_loss(self, _weight_gradient(loss))


def dynamic_scale_loss(self: Any, loss: Any) -> Any:
    """The same for dynamic loss scaling."""
    _record_loss(self, loss)
    return _stock_dynamic_scale_loss(self, _weight_gradient(loss))


def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
    """`Optimizer.apply`; what it assigns is the same on all replicas already."""
    step = current_step()
    if step is None:
        return _stock_apply(self, grads, trainable_variables)
    _refuse_overwriting(trainable_variables or self._trainable_variables)
    with step.inside_optimizer():
        return _stock_apply(self, grads, trainable_variables)


def backend_apply_gradients(self: Any, grads: Any, trainable_variables: Any) -> None:
    """Reduces, then hands over to Keras' clipping, weight decay and update."""
    step = current_step()
    if step is None:
        _record_gradients(self, grads, trainable_variables)
        _stock_apply_gradients(self, grads, trainable_variables)
    elif self.gradient_accumulation_steps:
        ready = prepare(step, grads)
        _record_gradients(self, ready, trainable_variables)
        _accumulate(self, step, ready, trainable_variables)
    else:
        if not step.gradients_reduced:
            ready = prepare(step, grads)
            _record_gradients(self, ready, trainable_variables)
            state = compression_slots.state_of(self, trainable_variables)
            grads = _reduce(step, ready, grads, state)
        _stock_apply_gradients(self, grads, trainable_variables)


def all_reduce_sum_gradients(self: Any, grads_and_vars: Any) -> Any:
    """Nothing is left to reduce when Keras asks for it."""
    if current_step() is None:
        return _stock_all_reduce(self, grads_and_vars)
    return grads_and_vars


def scaled_apply(self: Any, grads: Any, trainable_variables: Any = None) -> None:
    """`LossScaleOptimizer`: all replicas take or skip the update together.

    Without accumulation the finite check sees the reduced gradient, as one device would. With it
    a micro-step is not reduced, so the replicas vote: one gradient that is not finite skips it.
    """
    step = current_step()
    if step is None:
        _stock_scaled_apply(self, grads, trainable_variables)
        return
    compression_slots.refuse_scaling(self.inner_optimizer)
    with step.inside_optimizer():
        present = [g for g in grads if g is not None]
        ready = prepare(step, present)
        accumulates = bool(self.inner_optimizer.gradient_accumulation_steps)
        if not accumulates:
            ready = _reduce(step, ready, present)
        finite = self.check_finite(ready)
        if accumulates:
            finite = step.sum([tf.cast(tf.logical_not(finite), tf.float32)])[0] < 0.5
        filled = iter(ready)
        grads = [None if g is None else next(filled) for g in grads]
        with step.inside_optimizer(reduced=True):
            ops.cond(
                finite,
                lambda: self._stateful_handle_finite_grads(grads, trainable_variables),
                self._stateful_handle_non_finite_grads,
            )


def add_variable_from_reference(
    self: Any, reference_variable: Any, name: str | None = None, initializer: Any = "zeros"
) -> Any:
    """Gradient accumulators: each replica adds up its own; who reads one sees the sum."""
    strategy = tf.distribute.get_strategy()
    if name != "gradient_accumulator" or not getattr(strategy, "tfdp_sums_accumulators", False):
        return _stock_add_from_reference(self, reference_variable, name, initializer)
    with strategy.tfdp_creating_accumulator():
        return _stock_add_from_reference(self, reference_variable, name, initializer)


def build(self: Any, variables: Any) -> None:
    """`Optimizer.build`, and the state of a compression that has one."""
    _stock_build(self, variables)
    compression_slots.add(self, variables, _stock_add_from_reference)


def prepare(step: ReplicaStep, grads: Sequence[Any]) -> list[Any]:
    """A replica's gradients as they enter the reduction (unless they did so already)."""
    grads = list(grads)
    if step.gradients_reduced:
        return grads
    if step.managed and not step.loss_weighted:
        if not step.losses_computed:
            _say_how_own_losses_count()
        grads = [_times(g, step.row_share) for g in grads]
    return step.drop_if_empty(grads)


def _record_loss(self: Any, loss: Any) -> None:
    """Lets the optimizer's recorder, where it has one, look at the replica's own loss."""
    recorder = recorder_of(self)
    if recorder is not None:
        step = current_step()
        recorder.note_loss(loss, None if step is None or not step.may_be_empty else step.rows)


def _record_gradients(self: Any, grads: Sequence[Any], variables: Sequence[Any]) -> None:
    """Lets it look at the gradients as they enter the reduction, before clipping."""
    recorder = recorder_of(self)
    if recorder is not None:
        recorder.note_gradients(grads, [self._get_variable_index(v) for v in variables])


@functools.cache
def _say_how_own_losses_count() -> None:
    _log.warning(
        "a train_step computes its loss without a keras.losses.Loss: tfdp takes it for a mean "
        "over the rows. If it is a sum, N replicas make an N-th of the update that one device "
        'makes; use a Loss object with reduction="sum", whose divisor tfdp knows.'
    )


def _weight_gradient(loss: Any) -> Any:
    """Keeps the value of a loss and multiplies its gradient by this replica's share of the rows.

    Done to the loss rather than to the gradients: one number instead of a pass over all of them.
    A loss that is a vector is a sum over rows to the gradient tape, and sums need no weight.
    """
    step = current_step()
    if step is None or not step.managed:
        return loss
    step.loss_weighted = True
    loss = tf.convert_to_tensor(loss)
    if loss.shape.rank != 0:
        return loss
    held = tf.stop_gradient(loss)
    return held + (loss - held) * step.row_share(loss.dtype)


def _accumulate(self: Any, step: ReplicaStep, grads: list[Any], variables: list[Any]) -> None:
    """Adds up locally; one reduction, clip and update every `gradient_accumulation_steps`.

    Exact also on micro-batches of different sizes: each is weighted when it is computed, and
    summing over micro-steps and over replicas commute.
    """
    steps = self.gradient_accumulation_steps
    is_update = (self._iterations + 1) % steps == 0
    accumulators = [
        self._accumulated_gradients[self._get_variable_index(v)].value for v in variables
    ]
    totals = [
        tf.convert_to_tensor(g) + a.read_value() for g, a in zip(grads, accumulators, strict=True)
    ]
    state = compression_slots.state_of(self, variables)
    reduced = _sum_when(step, is_update, totals, state)

    def update() -> None:
        mean = self._clip_gradients([g / steps for g in reduced])
        self._apply_weight_decay(variables)
        self._backend_update_step(mean, variables, self.learning_rate)
        for accumulator in accumulators:
            accumulator.assign(tf.zeros_like(accumulator))

    def keep() -> None:
        for accumulator, total in zip(accumulators, totals, strict=True):
            accumulator.assign(total)

    with step.inside_optimizer(reduced=True):
        ops.cond(is_update, update, keep)
        if self.use_ema:
            _update_average(self)


def _update_average(self: Any) -> None:
    """The exponential moving average of the weights, as at the end of Keras' own method."""
    self._update_model_variables_moving_average(self._trainable_variables)
    if self.ema_overwrite_frequency:
        overwrite = (self.iterations + 1) % self.ema_overwrite_frequency == 0
        ops.cond(
            overwrite,
            lambda: self._overwrite_model_variables_with_average_value(self._trainable_variables),
            lambda: None,
        )


def _sum_when(
    step: ReplicaStep,
    condition: tf.Tensor,
    tensors: list[Any],
    state: CompressionState | None,
) -> list[Any]:
    """The sums over all replicas where the condition holds, else the tensors as they are.

    The condition is the same on all replicas. Reducers that need all replicas to meet cannot do
    so in a branch, so they meet outside and branch there.
    """
    if tf.executing_eagerly():
        return step.sum_gradients(tensors, state) if bool(condition) else tensors
    extended = step.strategy.extended
    if extended.tfdp_worker_reduction is not None:
        return list(extended.tfdp_sum_over_workers(tensors, condition, gradients=True, state=state))
    if not (extended.tfdp_reduces_across_replicas and tfp.replicas_can_meet()):
        return list(
            tf.cond(condition, lambda: step.sum(tensors), lambda: [tf.identity(t) for t in tensors])
        )

    def meet(strategy: Any, condition: Any, *values: Any) -> Any:
        return strategy.extended.tfdp_sum_when(condition, values)

    context = tf.distribute.get_replica_context()
    return list(context.merge_call(meet, args=(condition, *tensors)))


def _reduce(
    step: ReplicaStep,
    ready: Sequence[Any],
    computed: Sequence[Any],
    state: CompressionState | None = None,
) -> list[Any]:
    """Sums gradients over the replicas.

    Args:
        ready: as `prepare` made them.
        computed: as the gradient tape made them.
        state: see `ReplicaStep.sum_gradients`.
    """
    summed = step.sum_gradients(ready, state)
    return [
        _merge_rows(total) if _has_distinct_rows(own) else total
        for total, own in zip(summed, computed, strict=True)
    ]


def _has_distinct_rows(gradient: Any) -> bool:
    """Whether these IndexedSlices name no row twice, because TensorFlow has merged them.

    It merges those of a product with a sparse matrix, and not those of an embedding. Rows that
    several replicas name have to be merged again, since optimizers square what they are given.
    """
    if not isinstance(gradient, tf.IndexedSlices) or tf.executing_eagerly():
        return False
    source = gradient.indices.op
    while source.type in ("Identity", "Reshape", "Cast"):
        source = source.inputs[0].op
    return source.type in ("Unique", "UniqueV2")


def _merge_rows(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    rows, place = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, place, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def _times(gradient: Any, factor: Any) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values * factor(gradient.values.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient * factor(gradient.dtype)


def _refuse_overwriting(variables: Any) -> None:
    for variable in variables:
        if isinstance(variable, backend.Variable) and getattr(
            variable, "overwrite_with_gradient", False
        ):
            raise UnsupportedError(
                f"{variable.path} is overwritten with its gradient (float8 training), and the "
                "replicas would each write something else.",
                hint="Train float8 models on one device, or use mixed_bfloat16 here.",
            )
