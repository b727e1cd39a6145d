"""Every error that a user can meet, each with the exit code of the command line.

The message says what was set and why it cannot be; ``hint`` says what to do. Code outside this
package can therefore catch `TfdpError` and show ``str(error)`` without a traceback.

============================  =========  ==========================================================
error                         exit code  what it is about
============================  =========  ==========================================================
`ParityError`                         1  N replicas did not train what one device trained
`ConfigError`                         2  the config file, or ``--set``
`ClusterError`                        3  ``TF_CONFIG``, and how the workers find each other
`StrategyError`                       4  devices and cross-device ops
`DataError`                           5  the examples and labels
`RunError`                            6  the run directory, checkpoints, the disk
`UnsupportedError`                    7  a version, backend or feature that cannot be exact
`WorkerError`                         8  a worker that was started here failed
`PreemptedError`                     75  a signal asked the run to stop; it has saved and can go on
`StalledError`                       79  a worker that was started here did not go on
============================  =========  ==========================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class TfdpError(Exception):
    """Base of all errors that tfdp raises on purpose.

    Args:
      message: what was set, and why it cannot be.
      hint: what to do about it, or None where the message leaves no doubt.
    """

    exit_code: ClassVar[int] = 70
    """Exit code of the command line (70: sysexits' "internal error"; subclasses set their own)."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n{self.hint}"


class ParityError(TfdpError):
    """Training on N replicas and on one device gave different results."""

    exit_code = 1


class ConfigError(TfdpError):
    """The config cannot be used; `problems` lists everything that is wrong with it at once.

    Args:
      problems: one line each, starting with its place where it has one
        (``train.yaml:12: training.epochs: ...``). A single string is one problem.
      hint: what to do, where that is the same for all of them.
    """

    exit_code = 2

    def __init__(self, problems: str | Sequence[str], *, hint: str | None = None) -> None:
        self.problems: list[str] = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems), hint=hint)


class ClusterError(TfdpError):
    """``TF_CONFIG`` is malformed, or the workers that it names cannot form a group."""

    exit_code = 3


class StrategyError(TfdpError):
    """The devices or the cross-device ops that were asked for cannot be had here."""

    exit_code = 4


class DataError(TfdpError):
    """Examples or labels are missing, malformed, of the wrong shape or out of range."""

    exit_code = 5


class RunError(TfdpError):
    """The run directory exists, cannot be written or cannot be resumed."""

    exit_code = 6


class UnsupportedError(TfdpError):
    """This version, Keras backend or combination of features cannot train exactly."""

    exit_code = 7


class WorkerError(TfdpError):
    """A worker process that tfdp started has failed, or has not finished in time.

    Args:
      message: which worker, how, and the end of its output.
      hint: what to do about it.
      worker: its index, or None where it is not one alone.
      traceback_text: the worker's own traceback, or what is known of it; may be empty.
    """

    exit_code = 8

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        worker: int | None = None,
        traceback_text: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.worker = worker
        self.traceback_text = traceback_text


class StalledError(WorkerError):
    """A worker process that tfdp started was stopped or got stuck, and was ended."""

    exit_code = 79


class PreemptedError(TfdpError, SystemExit):
    """A signal asked the run to stop: a checkpoint was written, and the run can go on from it.

    A script that does not catch it ends quietly, with the exit code.
    """

    exit_code = 75
    """sysexits' "temporary failure": start the same command again."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = self.exit_code


class NotFiniteError(RunError):
    """The loss, a gradient or a weight is NaN or infinite.

    Args:
      message: what, when and where.
      hint: what to do about it.
      what: "loss", "gradient" or "weight": what was not finite first.
      epoch: number of the epoch, from 1.
      step: number of the step where it was found first, from 1, over all epochs.
      step_in_epoch: index of its batch in the epoch, from 0.
      replica: the first that had it, counted over all workers; None where nobody knows.
      worker: the replica's.
      tensor: path of the first variable with such a gradient or value, in the order of the
        trainable variables; None where it is the loss alone.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        what: str = "loss",
        epoch: int = 0,
        step: int = 0,
        step_in_epoch: int = 0,
        replica: int | None = None,
        worker: int | None = None,
        tensor: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.what = what
        self.epoch = epoch
        self.step = step
        self.step_in_epoch = step_in_epoch
        self.replica = replica
        self.worker = worker
        self.tensor = tensor


class DriftError(RunError):
    """The replicas' copies of a variable, which must be equal, are not.

    Args:
      message: which variable, where and when.
      hint: what to do about it.
      variable: path of the first that differs.
      replicas: those that differ from the majority, counted over all workers; empty where there
        is no majority.
      step: number of the step after which it was found, over all epochs.
      equal_step: that after which all were equal last.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        variable: str = "",
        replicas: Sequence[int] = (),
        step: int = 0,
        equal_step: int = 0,
    ) -> None:
        super().__init__(message, hint=hint)
        self.variable = variable
        self.replicas = tuple(replicas)
        self.step = step
        self.equal_step = equal_step
