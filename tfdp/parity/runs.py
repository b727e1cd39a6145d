"""The runs of one process: on one device, or on each number of replicas in turn."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdp.parity import definition
from tfdp.parity.feeds import Feed
from tfdp.parity.record import Record, train_and_record, variables_of
from tfdp.parity.verdicts import Facts, Runs

_DRAWS = 4
_EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}

Scope = Callable[[], contextlib.AbstractContextManager[Any]]


@dataclass(frozen=True)
class Job:
    """What to run; the same in every process.

    Attributes:
      build: makes the compiled model.
      feed: makes the data.
      epochs: to train.
      seed: of everything random.
      floatx: Keras' default type for the runs; None leaves it.
    """

    build: Callable[[], keras.Model]
    feed: Callable[[], Feed]
    epochs: int
    seed: int
    floatx: str | None = None


@dataclass(frozen=True)
class Outcome:
    """The runs of one device or one number of replicas, with what is known about the model."""

    runs: Runs
    facts: Facts
    what: str


def run_one_device(job: Job, *, comparable: bool) -> Outcome:
    """Plain Keras, without any strategy.

    Args:
      job: what to run.
      comparable: whether there will be several replicas to compare with.
    """
    with _default_type(job.floatx):
        plain = _Variants(job, contextlib.nullcontext)
        runs, facts = plain.as_is()
        if facts.reasons and comparable:
            runs = dataclasses.replace(runs, comparable=plain.comparable().arrays)
        rounded = plain.rounded(facts.precision, comparable=runs.comparable is not None)
        runs = dataclasses.replace(runs, rounding=rounded.arrays)
        draws = _draw(None, job.seed)
        return Outcome(dataclasses.replace(runs, draws=draws), facts, plain.what)


def run_replicas(job: Job, devices: Sequence[str]) -> Outcome:
    """A mirrored strategy of tfdp on these devices."""
    from tfdp.strategies.factory import strategy as make_strategy

    with _default_type(job.floatx):
        strategy = make_strategy("mirrored", devices=list(devices))
        replicated = _Variants(job, strategy.scope)
        runs, facts = replicated.as_is()
        if len(devices) > 1:
            if facts.reasons:
                runs = dataclasses.replace(runs, comparable=replicated.comparable().arrays)
            if facts.names["random streams"]:
                runs = dataclasses.replace(runs, repeat=replicated.as_is()[0].as_is)
        draws = _draw(strategy, job.seed)
        return Outcome(dataclasses.replace(runs, draws=draws), facts, replicated.what)


class _Variants:
    """Builds the model in a scope, changes it or not, trains and records."""

    def __init__(self, job: Job, scope: Scope) -> None:
        self._job = job
        self._scope = scope
        self.what = ""

    def as_is(self) -> tuple[Runs, Facts]:
        model, feed = self._start()
        record = self._train(model, feed)
        # Only now do all layers exist, if the model was not built before.
        facts = Facts(
            tuple(definition.reasons(model)),
            tuple(definition.without_switch(model)),
            definition.precision(model),
            record.names,
        )
        return Runs(record.arrays), facts

    def comparable(self) -> Record:
        """The same with everything switched off that differs by definition."""
        model, feed = self._start()
        definition.make_comparable(model)
        return self._train(model, feed)

    def rounded(self, precision: str, *, comparable: bool) -> Record:
        """Every weight off by one unit of rounding, up or down, at the start."""
        model, feed = self._start()
        if comparable:
            definition.make_comparable(model)
        if not model.built:
            model.predict(**self._job.feed().predict, steps=1, verbose=0)
        rng = np.random.default_rng(self._job.seed)
        for variable in variables_of(model)["weights"]:
            value = variable.numpy()
            signs = rng.integers(0, 2, value.shape) * 2 - 1
            variable.assign(value * (1 + signs * _EPSILON[precision]))
        return self._train(model, feed)

    def _start(self) -> tuple[keras.Model, Feed]:
        """Data first: then what a data set draws does not depend on how a model is built."""
        keras.utils.set_random_seed(self._job.seed)
        feed = self._job.feed()
        self.what = f"{self._job.epochs} epochs of {feed.what}"
        with self._scope():
            return self._job.build(), feed

    def _train(self, model: keras.Model, feed: Feed) -> Record:
        fit = {**feed.fit, "epochs": self._job.epochs}
        return train_and_record(model, fit, evaluate=feed.evaluate, predict=feed.predict)


def _draw(strategy: tf.distribute.Strategy | None, seed: int) -> np.ndarray:
    """`(replicas, n)` numbers, as a random layer of each replica draws them."""
    with strategy.scope() if strategy is not None else contextlib.nullcontext():
        generator = keras.random.SeedGenerator(seed)

    def draw() -> Any:
        return keras.random.uniform((_DRAWS,), seed=generator, dtype="float32")

    if strategy is None:
        return np.asarray([np.asarray(draw())])
    drawn = strategy.experimental_local_results(strategy.run(draw))
    return np.asarray([np.asarray(part) for part in drawn])


@contextlib.contextmanager
def _default_type(floatx: str | None) -> Iterator[None]:
    before, policy = keras.config.floatx(), keras.config.dtype_policy()
    if floatx is not None:
        keras.config.set_floatx(floatx)
        keras.config.set_dtype_policy(floatx)
    try:
        yield
    finally:
        if floatx is not None:
            keras.config.set_floatx(before)
            keras.config.set_dtype_policy(policy)
