"""The callback that saves a run, lets it go on to the bit, and saves before it is ended."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras

from tfdp.cluster import heartbeat
from tfdp.errors import ConfigError, PreemptedError, RunError
from tfdp.strategies.keras_compat import fit_loop
from tfdp.strategies.keras_compat.install import install
from tfdp.training import variables
from tfdp.training.agreement import Agreement
from tfdp.training.background import BackgroundWriter
from tfdp.training.callback_state import assign_callbacks, read_callbacks
from tfdp.training.checkpoints import CheckpointStore, Snapshot
from tfdp.training.incidents import Kind
from tfdp.training.progress import Progress
from tfdp.training.stop_signals import StopSignals
from tfdp.training.triggers import SaveTriggers
from tfdp.training.variables import StateArray
from tfdp.training.workers import check_same_progress

_log = logging.getLogger("tfdp.training")


class Checkpoints(keras.callbacks.Callback):
    """Checkpoints for `model.fit`, from which a run goes on to the bit, in the middle of an epoch.

    A run that was killed at any step, and started again with the same command, ends with the same
    weights as one that was not: on the same number of replicas to the bit (where TensorFlow's
    kernels are deterministic), on another within rounding. On several workers every worker runs the
    callback, the chief writes, and all must see the directory.

    While `fit` runs, SIGTERM and SIGINT (Ctrl-C) save a checkpoint after the running step, on all
    workers after the same one, and raise `tfdp.errors.PreemptedError`, which ends a script with
    exit code 75. A second Ctrl-C ends the process at once.

    The data have to come in the same order again: arrays and `tf.data` pipelines with a seed
    (`keras.utils.set_random_seed`) do. What stands before the place where the run goes on is read
    and dropped, unless `position` is given.

    A directory is for one run. A second `fit` with the same object counts its steps on; after a
    signal it goes on where the first one was stopped.

    Args:
      directory: of the checkpoints.
      every_epochs: epochs from one checkpoint to the next; 0: none at the end of epochs.
      every_steps: steps from one checkpoint to the next; 0: none.
      every_minutes: minutes from one checkpoint to the next; 0: none.
      keep: how many of the latest are kept.
      keep_best: how many of the best are kept beside them.
      monitor: the metric that tells which is best, read at the end of an epoch.
      mode: "min", "max", or "auto": "max" for a metric whose name says accuracy or AUC.
      resume: go on from the latest checkpoint in `directory`, if there is one.
      in_background: write files in a thread, while training goes on.
      on_signals: save when the process is told to end.
      save_at_start: whether there is to be one before the first step.
      position: given (epoch, step), lets the data set begin there by itself.
      check: called before each checkpoint; raises where the model must not be saved.
      on_event: called with a kind ("resumed", "damaged_checkpoint", "preempted"), how far the run
        has come, and details.

    Attributes:
      position: see above.
      check: see above.

    Raises:
      ConfigError: a number is out of range, or `mode` unknown.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        every_epochs: int = 1,
        every_steps: int = 0,
        every_minutes: float = 0.0,
        keep: int = 3,
        keep_best: int = 0,
        monitor: str = "val_loss",
        mode: str = "auto",
        resume: bool = True,
        in_background: bool = True,
        on_signals: bool = True,
        save_at_start: bool = False,
        position: Callable[[int, int], None] | None = None,
        check: Callable[[], None] | None = None,
        on_event: Callable[[Kind, Progress, Mapping[str, Any]], None] | None = None,
    ) -> None:
        super().__init__()
        if keep < 1 or keep_best < 0:
            raise ConfigError(
                f"keep is {keep} and keep_best {keep_best}: at least 1 and 0 checkpoints are kept."
            )
        install()
        self._triggers = SaveTriggers(every_epochs, every_steps, every_minutes)
        self._store = CheckpointStore(
            Path(directory),
            keep=keep,
            keep_best=keep_best,
            larger_is_better=larger_is_better(monitor, mode),
        )
        self._monitor = monitor
        self._save_at_start = save_at_start and self._triggers.any
        self._resume = resume
        self._on_signals = on_signals and self._triggers.any
        self.position = position
        self.check = check
        self._on_event = on_event or (lambda kind, progress, details: None)
        self._restored: Snapshot | None = None
        self._progress = Progress()
        self._history: dict[str, list[float]] = {}
        self._others: Sequence[keras.callbacks.Callback] = ()
        self._epoch_metrics: list[StateArray] | None = None
        self._boundaries = 0
        self._logs: dict[str, float] = {}
        self._signals = StopSignals()
        self._writer = BackgroundWriter(in_background)
        self._preempted = False

    @property
    def progress(self) -> Progress:
        """How far the run has come."""
        # A copy: a checkpoint is written beside the training, which goes on adding to the history.
        history = {name: list(values) for name, values in self._history.items()}
        return dataclasses.replace(self._progress, history=history)

    @property
    def history(self) -> dict[str, list[float]]:
        """Value of every metric after each epoch, those before a resume included."""
        return self._history

    def restore(self, model: keras.Model) -> Progress:
        """Gives `model` the latest state that is whole; `fit` does it if nobody has.

        Returns:
          How far the run has come; nowhere, where there is no checkpoint.

        Raises:
          RunError: all checkpoints are damaged, or they belong to another model.
        """
        found = self._store.load_latest(self._passed_over)
        snapshot, place = found or (Snapshot(Progress(), ()), self._store.directory)
        check_same_progress(
            model.distribute_strategy, snapshot.progress, str(place), snapshot.variables
        )
        if found is not None:
            self.go_on_from(model, snapshot, str(place))
        return self.progress

    @property
    def store(self) -> CheckpointStore:
        """Where the checkpoints are."""
        return self._store

    def go_on_from(self, model: keras.Model, snapshot: Snapshot, place: str) -> None:
        """Gives `model` the state of `snapshot`; the next `fit` goes on from there.

        Raises:
          RunError: it belongs to another model.
        """
        variables.assign_state(model, snapshot.variables, place)
        self._restored = snapshot
        self._progress = snapshot.progress
        self._history = {name: list(values) for name, values in snapshot.progress.history.items()}
        self._resume = False
        self._on_event("resumed", self._progress, {"checkpoint": place})
        _log.info("%s: goes on after %s", place, snapshot.progress.describe())

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        self._strategy = self.model.distribute_strategy
        worker, workers, _ = variables.place_of(self._strategy)
        self._is_chief, self._workers = worker == 0, workers
        fit_loop.release_with_fit(self.model, self)
        self._iterator = fit_loop.epoch_iterator(self.model)
        if self._resume:
            self.restore(self.model)
        elif self._restored is None:
            self._begin_anew()
        ended = self._progress.stopped
        fit_loop.begin_with_epoch(
            self.model, self.params["epochs"] if ended else self._progress.epochs
        )
        self._reader = variables.StateReader(self.model)
        self._stop = Agreement("stop", worker, workers)
        self._save_now = Agreement("save", worker, workers)
        self._signals, self._preempted = StopSignals(), False
        if self._on_signals:
            self._signals.install()
        self._triggers.begin(self._progress.total_steps, time.monotonic())
        if self._save_at_start and not self._store.list():
            self._save()

    def tfdp_join(self, callbacks: keras.callbacks.CallbackList) -> None:
        """Becomes the last of all callbacks, so that it saves what the others have done."""
        callbacks.callbacks.remove(self)
        callbacks.callbacks.append(self)
        self._others = callbacks.callbacks[:-1]
        if self._restored is not None:
            assign_callbacks(self._others, self._restored.callbacks)

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        restored, self._restored = self._restored, None
        first = restored.progress.step if restored is not None else 0
        if self._progress.epochs != epoch:  # the program has asked for another initial_epoch
            self._progress = dataclasses.replace(self._progress, epochs=epoch, step=0)
        left_out = frozenset(step for at, step in self._progress.left_out if at == epoch)
        if self.position is not None:
            self.position(epoch, first)
        if restored is None and not left_out:
            fit_loop.forget_logs(self.model)
            return
        passes, batches = fit_loop.place_of(self._iterator, epoch, first)
        plan = fit_loop.EpochPlan(
            first_step=first,
            epochs=epoch if restored is not None else 0,
            passes=passes if restored is not None else 0,
            batches=batches,
            positioned=self.position is not None,
            left_out=left_out,
            logs=restored.logs if first and restored is not None else {},
        )
        fit_loop.plan_next_epoch(self.model, self._iterator, plan)
        if first and restored is not None:
            variables.assign_metrics(self.model, restored.variables)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        finished = batch + 1 - self._progress.step
        self._progress = dataclasses.replace(
            self._progress,
            step=batch + 1,
            total_steps=self._progress.total_steps + finished,
        )
        self._logs = {name: float(value) for name, value in (logs or {}).items()}
        self._boundary()

    def on_test_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        if self._on_signals:  # the validation begins by forgetting what the epoch has added up
            self._epoch_metrics = self._reader.read_metrics()

    def on_test_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._boundary()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._epoch_metrics = None
        values = {name: float(value) for name, value in (logs or {}).items()}
        for name, value in values.items():
            self._history.setdefault(name, []).append(value)
        stopped = bool(self.model.stop_training)
        self._progress = dataclasses.replace(
            self._progress, epochs=epoch + 1, step=0, stopped=stopped
        )
        last = epoch + 1 == self.params["epochs"] or stopped
        if self._triggers.at_epoch_end(epoch + 1, last):
            self._save(monitored=values.get(self._monitor))

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        self._writer.wait()

    def tfdp_release(self) -> None:
        """`fit` has ended, in one way or another."""
        self._signals.remove()
        self._writer.close()
        fit_loop.begin_with_epoch(self.model, None)
        self._resume = self._preempted  # as in a notebook, where the same object is used again

    def _begin_anew(self) -> None:
        """Begins with the first epoch. The steps are counted on: the latest checkpoints are kept.

        Raises:
          RunError: what is in the directory was written by another run.
        """
        if not self._progress.total_steps and (found := self._store.list()):
            raise RunError(
                f"{self._store.directory}: holds the checkpoints of another run (after "
                f"{found[-1].total_steps} steps), which this one would remove.",
                hint="Go on with that run (resume=True), or name another directory.",
            )
        self._progress, self._history = Progress(total_steps=self._progress.total_steps), {}

    def _boundary(self) -> None:
        """After each step and each batch of a validation, on all workers."""
        self._boundaries += 1
        if self._signals.received is not None:
            self._stop.ask()
        if self._stop.is_due(self._boundaries):
            self._leave()
        total = self._progress.total_steps
        by_time = self._triggers.wants_minutes
        if by_time and self._is_chief and self._triggers.after_minutes(time.monotonic()):
            self._save_now.ask()
        by_time = by_time and self._save_now.is_due(self._boundaries)
        if self._triggers.after_steps(total) or by_time:
            self._save()

    def _leave(self) -> None:
        self._save()
        self._writer.wait()
        if self._workers > 1:
            # A worker that left before the file is there would look like a failure.
            self._strategy.tfdp_gather_from_workers(0)
        received = self._signals.received
        name = "another worker's signal" if received is None else received.name
        self._on_event("preempted", self._progress, {"signal": name})
        self._preempted = True
        raise PreemptedError(
            f"{name}: stopped after {self._progress.describe()}; it is all in "
            f"{self._store.directory}.",
            hint="Start it again, tfdp train and tfdp launch with --resume: it goes on from there.",
        )

    def _save(self, monitored: float | None = None) -> None:
        """Reads the state, on all workers; the chief writes it."""
        with heartbeat.activity("saving a checkpoint"):
            if self.check is not None:
                self.check()
            snapshot = Snapshot(
                self.progress,
                self._state(),
                read_callbacks(self._others),
                monitored,
                self._logs,
            )
            self._triggers.saved(self._progress.total_steps, time.monotonic())
            if self._is_chief:
                self._writer.run(lambda: self._store.save(snapshot))

    def _state(self) -> list[StateArray]:
        state = self._reader.read()
        if self._epoch_metrics is None:
            return state
        return [*(each for each in state if not each.is_of_metric), *self._epoch_metrics]

    def _passed_over(self, text: str) -> None:
        _log.warning("%s", text)
        self._on_event("damaged_checkpoint", self._progress, {"message": text})


def larger_is_better(monitor: str, mode: str) -> bool:
    """Whether a larger value of the metric is the better one.

    Raises:
      ConfigError: `mode` is unknown.
    """
    if mode not in ("min", "max", "auto"):
        raise ConfigError(f'mode is "{mode}"; it must be "min", "max" or "auto".')
    if mode == "auto":
        return any(word in monitor.lower() for word in ("acc", "auc", "precision", "recall", "f1"))
    return mode == "max"
