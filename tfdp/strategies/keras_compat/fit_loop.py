"""Where `fit` begins in its data, and who hears of its end: what a resumed run needs of Keras.

Keras can begin with any epoch (`initial_epoch`), but only with the first batch of it; it tells no
callback that `fit` has raised, and none which other callbacks there are.
"""

from __future__ import annotations

import random
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from keras.src.backend.common import global_state
from keras.src.backend.tensorflow import trainer as tf_trainer
from keras.src.callbacks.callback_list import CallbackList
from keras.src.random import seed_generator

from tfdp.errors import DataError

_stock_enumerate = tf_trainer.TFEpochIterator._enumerate_iterator
_stock_fit = tf_trainer.TensorFlowTrainer.fit
_stock_train_begin = CallbackList.on_train_begin
_stock_result_or_logs = tf_trainer.TensorFlowTrainer._get_metrics_result_or_logs

_GLOBAL_SEED_GENERATOR = seed_generator.GLOBAL_SEED_GENERATOR


@dataclass(frozen=True)
class EpochPlan:
    """Which batches of the next epoch are trained on.

    Attributes:
      first_step: number, from 0, of the first step.
      epochs: epochs that are behind.
      passes: iterators that Keras would have made before the one of this epoch. A shuffle that is
        seeded, and shuffles anew for each iterator, then shuffles as it would have.
      batches: how many of the pass are behind.
      positioned: the data set begins at the right batch by itself, so none are dropped.
      left_out: steps that are not trained on; their batches are read and dropped.
      logs: what the step before `first_step` has logged.
    """

    first_step: int = 0
    epochs: int = 0
    passes: int = 0
    batches: int = 0
    positioned: bool = False
    left_out: frozenset[int] = frozenset()
    logs: Mapping[str, float] = field(default_factory=dict)


def remember_epoch_iterator(model: Any, iterator: Any) -> None:
    """Notes which iterator `fit` is about to use."""
    object.__setattr__(model, "_tfdp_epoch_iterator", weakref.ref(iterator))


def epoch_iterator(model: Any) -> Any:
    """Called from `on_train_begin`: what gives `fit` its batches, for the functions below."""
    return model._tfdp_epoch_iterator()


def plan_next_epoch(model: Any, iterator: Any, plan: EpochPlan) -> None:
    """Called from `on_epoch_begin`: the epoch that begins follows `plan`."""
    iterator.tfdp_plan = plan
    object.__setattr__(model, "_tfdp_logs_before", dict(plan.logs))


def forget_logs(model: Any) -> None:
    """Called from `on_epoch_begin`: the epoch is trained from its first step."""
    model.__dict__.pop("_tfdp_logs_before", None)


def metrics_result_or_logs(self: Any, logs: Any) -> Any:
    """`Trainer._get_metrics_result_or_logs`, for an epoch that was resumed after its last step.

    No step has logged anything then, and Keras would say nothing of the epoch.
    """
    return _stock_result_or_logs(self, logs or self.__dict__.get("_tfdp_logs_before") or logs)


def begin_with_epoch(model: Any, epoch: int | None) -> None:
    """Called from `on_train_begin`: `fit` begins with this epoch; None: as it was asked."""
    model._initial_epoch = epoch


def place_of(iterator: Any, epoch: int, step: int) -> tuple[int, int]:
    """Where in the data a run stands: `passes` and `batches` of an `EpochPlan`.

    Args:
      iterator: see `epoch_iterator`.
      epoch: epochs finished, each in full.
      step: steps into the next one.
    """
    return data_place(epoch, step, iterator.steps_per_epoch, iterator._num_batches)


def data_place(
    epoch: int, step: int, steps_per_epoch: int | None, batches: int | None
) -> tuple[int, int]:
    """As `place_of`, from numbers.

    Without `steps_per_epoch` an epoch is a pass; where Keras knows how many batches there are, it
    makes an iterator at both ends of the epoch. With it, Keras goes on through the data from epoch
    to epoch; where they end it ends the epoch too, and makes a new iterator.
    """
    if steps_per_epoch is None:
        return epoch * (1 if batches is None else 2), step
    if batches is None:
        return 0, epoch * steps_per_epoch + step
    passes = seen = 0
    for _ in range(epoch):
        seen += min(steps_per_epoch, batches - seen)
        if seen >= batches:
            passes, seen = passes + 1, 0
    return passes, seen + step


def enumerate_iterator(self: Any) -> Iterator[tuple[int, int, Any]]:
    """`TFEpochIterator._enumerate_iterator`, by the plan for this epoch if there is one."""
    plan: EpochPlan | None = self.__dict__.pop("tfdp_plan", None)
    if plan is None:
        yield from _stock_enumerate(self)
        return
    self.data_adapter.on_epoch_begin()
    steps = self.steps_per_epoch or self._num_batches
    if plan.first_step or plan.passes or self._current_iterator is None or not self.steps_per_epoch:
        self._current_iterator = _iterator_at(self, plan)
        self._steps_seen = plan.batches
    step, size = plan.first_step, self.steps_per_execution
    while (steps is None or step < steps) and not _at_end(self):
        iterator = self._current_iterator
        self._steps_seen += size
        if plan.left_out.isdisjoint(range(step, step + size)):
            yield step, step + size - 1, iterator
        elif _drop(iterator, size) < size:
            break
        step += size
    if _at_end(self):
        self._current_iterator = iter(self._get_iterator())
        self._steps_seen = 0
    self.data_adapter.on_epoch_end()


def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
    """`TensorFlowTrainer.fit`; callbacks with `tfdp_release` hear of its end, however it ends."""
    try:
        return _stock_fit(self, *args, **kwargs)
    finally:
        for callback in self.__dict__.pop("_tfdp_released_with_fit", ()):
            callback.tfdp_release()


def release_with_fit(model: Any, callback: Any) -> None:
    """Lets `callback.tfdp_release()` be called when the running `fit` has ended."""
    waiting = (*model.__dict__.get("_tfdp_released_with_fit", ()), callback)
    object.__setattr__(model, "_tfdp_released_with_fit", waiting)


def train_begin(self: CallbackList, logs: Any = None) -> None:
    """`CallbackList.on_train_begin`; callbacks with `tfdp_join` are then given the list."""
    _stock_train_begin(self, logs)
    for callback in list(self.callbacks):
        join = getattr(callback, "tfdp_join", None)
        if join is not None:
            join(self)


def global_random_state(*, create: bool) -> list[Any]:
    """The variable behind `keras.random` functions that are called without a seed, if it is there.

    Args:
      create: makes it if it is not there. That draws from Python's random numbers, so a run that
        never uses it must not.
    """
    if not create and global_state.get_global_attribute(_GLOBAL_SEED_GENERATOR) is None:
        return []
    return [seed_generator.global_seed_generator().state]


def _at_end(self: Any) -> bool:
    """Whether the pass is over; where Keras does not know the number of batches, it finds out."""
    return bool(self._num_batches) and self._steps_seen >= self._num_batches


def _iterator_at(self: Any, plan: EpochPlan) -> Any:
    if plan.positioned:
        return iter(self._get_iterator())
    dataset = getattr(self.data_adapter, "py_dataset", None)
    if dataset is not None:
        _replay(dataset, self.data_adapter.shuffle, plan.epochs)
    else:
        for _ in range(plan.passes):
            iter(self._get_iterator())
    iterator = iter(self._get_iterator())
    found = _drop(iterator, plan.batches)
    if found < plan.batches:
        raise DataError(
            f"the data end after {found} batches, and the run stood after {plan.batches} of them: "
            "it cannot go on where it was.",
            hint="Give the same data as before. With steps_per_epoch, a data set of unknown length "
            "has to be endless (repeat()), or nobody can tell which of its passes the run was in.",
        )
    return iterator


def _replay(dataset: Any, shuffle: bool, epochs: int) -> None:
    """Lets a PyDataset draw what it has drawn in `epochs` epochs: many shuffle when one ends.

    Keras shuffles the order of the batches by Python's random numbers. It does so when the first
    batch is read; iterators that give none change nothing.
    """
    batches = dataset.num_batches
    for _ in range(epochs):
        dataset.on_epoch_begin()
        if shuffle and batches is not None:
            random.shuffle(list(range(batches)))
        dataset.on_epoch_end()


def _drop(iterator: Any, batches: int) -> int:
    """Takes batches that nobody uses; returns how many there were."""
    for number in range(batches):
        if next(iterator, None) is None:
            return number
    return batches
