"""Losses whose divisor is that of the whole batch.

Keras divides a replica's loss by what that replica has: its rows, its unmasked time steps, its
sample weights. Here the divisor is summed over the replicas first. What a replica then holds
obeys the convention of `tfdp.strategies.step`: its row-weighted mean over the replicas is the
loss of the whole batch.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from keras.src import backend, ops, tree
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
from keras.src.losses import loss as keras_loss

from tfdp.strategies.keras_compat.gathering import Place
from tfdp.strategies.keras_compat.metrics import mark
from tfdp.strategies.step import ReplicaStep, current_step

_MEANS = ("sum_over_batch_size", "mean")
_stock_call = keras_loss.Loss.__call__
_stock_scale = keras_loss.scale_loss_for_distribution
_stock_aggregate = TensorFlowTrainer._aggregate_additional_loss
_stock_unscale = keras_loss.unscale_loss_for_distribution


def call(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
    """`keras.losses.Loss.__call__` for every strategy."""
    step = current_step()
    if step is None:
        return _stock_call(self, y_true, y_pred, sample_weight=sample_weight)
    step.losses_computed = True
    in_mask = backend.get_keras_mask(y_pred)
    with ops.name_scope(self.name):
        y_pred = tree.map_structure(lambda x: _tensor(x, self.dtype), y_pred)
        y_true = tree.map_structure(lambda x: _tensor(x, self.dtype), y_true)
        losses = self.call(y_true, y_pred)
        if losses.shape.rank == 0:
            return _of_gathered_batch(self, step, y_true, y_pred, sample_weight, in_mask)
        masks = [m for m in (in_mask, backend.get_keras_mask(losses)) if m is not None]
        mask = masks[0] & masks[1] if len(masks) == 2 else next(iter(masks), None)
        return _reduce(step, losses, sample_weight, mask, self.reduction, self.dtype)


def scale(value: Any) -> Any:
    """`scale_loss_for_distribution`: the share of a replica is settled at the reduction instead."""
    return value if current_step() is not None else _stock_scale(value)


def unscale(value: Any) -> Any:
    """`unscale_loss_for_distribution`: the loss of the whole batch, for metrics and logs.

    Args:
        value: a replica's loss; a vector (of a loss with no reduction) counts as its mean.
    """
    step = current_step()
    if step is None:
        return _stock_unscale(value)
    value = tf.stop_gradient(tf.convert_to_tensor(value))
    if value.shape.rank != 0:
        elements = tf.cast(tf.size(value), tf.float64)
        total, count = step.sum_packed([tf.reduce_sum(tf.cast(value, tf.float64)), elements])
        return mark(tf.cast(tf.math.divide_no_nan(total, count), value.dtype))
    return mark(step.row_mean([value])[0] if step.managed else step.sum([value])[0])


def aggregate_additional_loss(self: Any, loss: Any) -> Any:
    """`_aggregate_additional_loss`: a vector of `add_loss` is a sum over rows, which Keras takes.

    A single number counts as a mean over the rows (or as independent of them).
    """
    total = _stock_aggregate(self, loss)
    step = current_step()
    if step is None or not step.managed or loss.shape.rank == 0:
        return total
    return total * step.whole_batch_factor(total.dtype)


def _tensor(value: Any, dtype: str) -> Any:
    return ops.convert_to_tensor(value, dtype=dtype)


def _reduce(
    step: ReplicaStep, values: Any, sample_weight: Any, mask: Any, reduction: str | None, dtype: str
) -> Any:
    """`reduce_weighted_values` of Keras, term by term, with divisors of the whole batch."""
    reduction = keras_loss.standardize_reduction(reduction)
    values = _tensor(values, dtype)
    counts: list[tf.Tensor] = []
    weight = None if sample_weight is None else _tensor(sample_weight, dtype)
    if mask is not None:
        mask = tf.cast(mask, values.dtype)
        if reduction in _MEANS:
            counts = [_count(mask), tf.reduce_sum(tf.cast(mask, tf.float64))]
        if weight is None:
            weight = mask
        else:
            mask, weight = keras_loss.squeeze_or_expand_to_same_rank(mask, weight)
            weight = weight * mask
    if weight is not None:
        values, weight = keras_loss.squeeze_or_expand_to_same_rank(values, weight)
        values = values * weight
    if reduction in (None, "none"):
        return values
    total = tf.reduce_sum(values)
    if reduction == "sum":
        return total * step.whole_batch_factor(total.dtype)
    if reduction == "mean_with_sample_weight" and weight is not None:
        divisor = tf.reduce_sum(tf.cast(weight, tf.float64))
    else:
        divisor = _count(values)
    divisor, *counts = step.sum_packed([tf.stop_gradient(c) for c in (divisor, *counts)])
    factor = step.whole_batch_factor()
    if counts:
        factor *= tf.math.divide_no_nan(counts[0], counts[1])
    return total * tf.cast(tf.math.divide_no_nan(factor, divisor), total.dtype)


def _of_gathered_batch(
    loss: Any, step: ReplicaStep, y_true: Any, y_pred: Any, sample_weight: Any, mask: Any
) -> Any:
    """A loss that is one number for a batch: computed on the whole batch by every replica.

    No rule tells how such a loss of the whole follows from those of the parts (Dice, contrastive
    losses, a user's own function), so the predictions are gathered. The gradient flows through
    the replica's own rows; the replicas' gradients then add up to that of the whole.
    """
    first = next(leaf for leaf in tree.flatten(y_pred) if leaf.shape.rank != 0)
    place = Place(step, tf.shape(first, out_type=tf.int64)[0])
    y_true = tree.map_structure(place.gather, y_true)
    y_pred = tree.map_structure(place.gather, y_pred)
    if sample_weight is not None:
        sample_weight = place.gather(_tensor(sample_weight, loss.dtype))
    if mask is not None:
        backend.set_keras_mask(y_pred, place.gather(tf.cast(mask, tf.int32)) > 0)
    value = _stock_call(loss, y_true, y_pred, sample_weight=sample_weight)
    held = tf.stop_gradient(value)
    shown = held if step.managed else held / step.replicas
    return shown + (value - held) * step.whole_batch_factor(value.dtype)


def _count(values: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.size(values, out_type=tf.int64), tf.float64)
