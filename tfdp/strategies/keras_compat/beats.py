"""Tells the launcher, if there is one, what `fit` and `evaluate` do at the moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from keras.src.callbacks.callback_list import CallbackList

from tfdp.cluster.heartbeat import Activity, current

_stock_batch_end = CallbackList.on_train_batch_end
_stock_epoch_begin = CallbackList.on_epoch_begin
_stock_epoch_end = CallbackList.on_epoch_end
_stock_test_begin = CallbackList.on_test_begin
_stock_test_end = CallbackList.on_test_end
_stock_train_end = CallbackList.on_train_end


class StepBeats:
    """The beats of a function that trains or tests on the next batches.

    Args:
      trains: whether it does train.
    """

    def __init__(self, *, trains: bool) -> None:
        self._trains = trains
        self._beat = current()

    def reads(self) -> None:
        """It waits for a batch."""
        self._beat.enter(Activity.READING if self._trains else Activity.VALIDATING)

    def runs(self) -> None:
        """It has the batch."""
        self._beat.enter(Activity.STEP if self._trains else Activity.VALIDATING)

    def traces(self) -> None:
        """Called from the step: what runs inside a graph only runs while that is built."""
        if not tf.executing_eagerly():
            self._beat.enter(Activity.BUILDING)

    def ends(self) -> None:
        """The batch is done."""
        if self._trains:
            self._beat.finish_step(Activity.BATCH_CALLBACK)
        else:
            self._beat.enter(Activity.VALIDATING)


def with_beats(function: Callable[[Any], Any], *, trains: bool) -> Callable[[Any], Any]:
    """Keras' own function for one replica, which reads its data inside the step."""
    if current().path is None:
        return function
    beats = StepBeats(trains=trains)
    built = False

    def watched(iterator: Any) -> Any:
        nonlocal built
        if built:
            beats.runs()
        else:
            current().enter(Activity.BUILDING)
        outputs = function(iterator)
        built = True
        beats.ends()
        return outputs

    return watched


def epoch_begin(self: CallbackList, epoch: int, logs: Any = None) -> None:
    """`CallbackList.on_epoch_begin`."""
    beat = current()
    if beat.path is not None:
        steps = getattr(getattr(self.model, "optimizer", None), "iterations", None)
        beat.begin_epoch(epoch, None if steps is None else int(steps.numpy()))
    _stock_epoch_begin(self, epoch, logs)
    beat.enter(Activity.BETWEEN)


def batch_end(self: CallbackList, batch: int, logs: Any = None) -> None:
    """`CallbackList.on_train_batch_end`."""
    _stock_batch_end(self, batch, logs)
    current().enter(Activity.BETWEEN)


def epoch_end(self: CallbackList, epoch: int, logs: Any = None) -> None:
    """`CallbackList.on_epoch_end`."""
    current().enter(Activity.EPOCH_CALLBACK)
    _stock_epoch_end(self, epoch, logs)
    current().enter(Activity.BETWEEN)


def evaluation_begin(self: CallbackList, logs: Any = None) -> None:
    """`CallbackList.on_test_begin`."""
    self._tfdp_before_test = current().activity
    current().enter(Activity.VALIDATING)
    _stock_test_begin(self, logs)


def evaluation_end(self: CallbackList, logs: Any = None) -> None:
    """`CallbackList.on_test_end`."""
    _stock_test_end(self, logs)
    current().enter(self.__dict__.pop("_tfdp_before_test", Activity.FINISHED))


def train_end(self: CallbackList, logs: Any = None) -> None:
    """`CallbackList.on_train_end`."""
    current().enter(Activity.EPOCH_CALLBACK)
    _stock_train_end(self, logs)
    current().enter(Activity.FINISHED)
