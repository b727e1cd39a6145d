"""Metrics fed with one number for a batch, which is not what the replicas' numbers average to."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from keras.src import backend, tree
from keras.src.metrics.reduction_metrics import Mean, MeanMetricWrapper, Sum

from tfdp.strategies.keras_compat.gathering import Place
from tfdp.strategies.step import current_step

OF_WHOLE_BATCH = "_tfdp_of_whole_batch"
_stock_mean_update = Mean.update_state
_stock_sum_update = Sum.update_state
_stock_wrapper_update = MeanMetricWrapper.update_state


def mark(value: Any) -> Any:
    """A tensor that is known to be the same on all replicas: that of the whole batch."""
    tensor = tf.identity(value)
    setattr(tensor, OF_WHOLE_BATCH, True)
    return tensor


def is_of_whole_batch(value: Any) -> bool:
    """Whether `mark` made this tensor."""
    return hasattr(value, OF_WHOLE_BATCH)


def update_mean(self: Any, values: Any, sample_weight: Any = None) -> None:
    """`Mean.update_state`: a single number stands for the rows of a replica, as one of a mean."""
    step = current_step()
    if step is not None and step.managed and sample_weight is None:
        tensor = tf.convert_to_tensor(values)
        if tensor.shape.rank == 0 and not is_of_whole_batch(values):
            values = step.row_mean([tensor])[0]
    _stock_mean_update(self, values, sample_weight)


def update_sum(self: Any, values: Any, sample_weight: Any = None) -> None:
    """`Sum.update_state`: a single number is added once for the batch, not once by each replica."""
    step = current_step()
    if step is not None and step.managed and sample_weight is None:
        tensor = tf.convert_to_tensor(values)
        if tensor.shape.rank == 0 and tensor.dtype.is_floating:
            values = step.row_mean([tensor])[0] / step.replicas
    _stock_sum_update(self, values, sample_weight)


def update_wrapper(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
    """`MeanMetricWrapper.update_state`: a function that gives one number sees the whole batch."""
    step = current_step()
    fed = [*tree.flatten(y_true), *tree.flatten(y_pred)]
    if step is None or not all(isinstance(t, tf.Tensor) and t.dtype != tf.string for t in fed):
        _stock_wrapper_update(self, y_true, y_pred, sample_weight)
        return
    weighted = sample_weight is not None or backend.get_keras_mask(y_pred) is not None
    probe = self._fn(y_true, y_pred, **self._fn_kwargs)
    if weighted or tf.convert_to_tensor(probe).shape.rank != 0:  # Keras cannot weigh one number
        _stock_wrapper_update(self, y_true, y_pred, sample_weight)
        return
    first = next(leaf for leaf in tree.flatten(y_pred) if leaf.shape.rank != 0)
    place = Place(step, tf.shape(first, out_type=tf.int64)[0])
    y_true = tree.map_structure(place.gather, y_true)
    y_pred = tree.map_structure(place.gather, y_pred)
    _stock_mean_update(self, mark(self._fn(y_true, y_pred, **self._fn_kwargs)))
