"""Runs a group, and starts it again when it fails."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TextIO

from tfdp.errors import RunError
from tfdp.launcher.environment import GroupShape, worker_environments
from tfdp.launcher.group import Group, GroupResult
from tfdp.launcher.interrupts import Interrupt, interrupts
from tfdp.launcher.output import Printer
from tfdp.launcher.ports import free_ports
from tfdp.launcher.process import WorkerSpec
from tfdp.launcher.report import describe
from tfdp.launcher.watchdog import Watchdog

DEFAULT_GRACE_SECONDS = 10.0
LONGEST_BACKOFF_SECONDS = 30.0

_log = logging.getLogger("tfdp.launch")


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """What to start, and how to go on when it fails.

    Attributes:
      shape: how many workers, with how many devices.
      command: program and arguments of every worker, given the number of restarts so far.
      addresses: ``host:port`` of all workers where they are fixed; None: free ports on this
        machine's loopback interface, other ones at each start.
      indexes: which workers are started here; None: all.
      log_directory: for the workers' logs; made if it is missing.
      verbose: show the output of all workers, not of the first alone.
      max_restarts: how often the group is started again after a failure.
      final_statuses: exit codes after which another start would fail in the same way.
      grace_seconds: between SIGTERM and SIGKILL.
      backoff_seconds: before the first restart; doubled for each further one.
      timeout_seconds: for each start of the group; None for no limit.
    """

    shape: GroupShape
    command: Callable[[int], Sequence[str]]
    addresses: tuple[str, ...] | None = None
    indexes: tuple[int, ...] | None = None
    log_directory: Path
    verbose: bool = False
    max_restarts: int = 0
    final_statuses: frozenset[int] = field(default_factory=frozenset)
    grace_seconds: float = DEFAULT_GRACE_SECONDS
    backoff_seconds: float = 1.0
    timeout_seconds: float | None = None

    def indexes_here(self) -> tuple[int, ...]:
        """Which workers are started here."""
        return tuple(range(self.shape.workers)) if self.indexes is None else self.indexes


def supervise(plan: LaunchPlan, environ: Mapping[str, str], stream: TextIO) -> GroupResult:
    """Runs the group until it succeeds, or has failed too often; no process of it is left.

    Args:
      plan: what to run.
      environ: what the workers inherit.
      stream: where their output is shown.

    Returns:
      How the last start has ended.

    Raises:
      ClusterError: there are not enough free ports.
      StrategyError: there are not enough GPUs.
      RunError: the logs cannot be written.
      BrokenPipeError: the reader of `stream` has left.
    """
    events: SimpleQueue[Any] = SimpleQueue()
    printer = Printer(stream)
    with interrupts(events), Watchdog() as watchdog:
        for restarts in range(plan.max_restarts + 1):
            group = Group(
                _specs(plan, environ, restarts),
                shown=plan.indexes_here() if plan.verbose else plan.indexes_here()[:1],
                printer=printer,
                grace_seconds=plan.grace_seconds,
                events=events,
                watchdog=watchdog,
            )
            result = group.run(plan.timeout_seconds)
            if not _may_restart(plan, result, restarts):
                return result
            interrupt = _back_off(plan, result, restarts, events)
            if interrupt is not None:
                return GroupResult(interrupt=interrupt.number, status=result.status)
    raise AssertionError("the last start returns")


def new_log_directory(path: Path | None) -> Path:
    """A directory for logs: `path`, made if it is missing, or a new temporary one.

    Raises:
      RunError: it cannot be made or written to.
    """
    try:
        if path is None:
            return Path(tempfile.mkdtemp(prefix="tfdp-launch-"))
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        raise RunError(
            f"logs cannot be written to {path or tempfile.gettempdir()}: {error.strerror}",
            hint="Name another directory (--log-dir).",
        ) from None


def _specs(plan: LaunchPlan, environ: Mapping[str, str], restarts: int) -> list[WorkerSpec]:
    addresses = plan.addresses
    if addresses is None:
        addresses = tuple(f"localhost:{port}" for port in free_ports(plan.shape.workers))
    indexes = plan.indexes_here()
    environments = worker_environments(plan.shape, addresses, indexes, environ, restarts=restarts)
    command = plan.command(restarts)
    suffix = f".restart-{restarts}" if restarts else ""
    specs = []
    for index, own in zip(indexes, environments, strict=True):
        log = plan.log_directory / f"worker-{index}{suffix}.log"
        log.unlink(missing_ok=True)  # an earlier launch may have written to the same directory
        specs.append(WorkerSpec(index, command, own, log))
    return specs


def _may_restart(plan: LaunchPlan, result: GroupResult, restarts: int) -> bool:
    if result.failure is None or result.interrupt is not None or restarts == plan.max_restarts:
        return False
    if result.failure.exit.status in plan.final_statuses:
        _log.warning("not started again: exit code %d would come back", result.failure.exit.status)
        return False
    return True


def _back_off(
    plan: LaunchPlan, result: GroupResult, restarts: int, events: SimpleQueue[Any]
) -> Interrupt | None:
    """Waits; returns the signal that ended the wait, if one did."""
    pause = min(LONGEST_BACKOFF_SECONDS, plan.backoff_seconds * 2**restarts)
    if result.failure is not None:
        _log.warning("%s", describe(result.failure))
    _log.warning("restart %d of %d in %g s", restarts + 1, plan.max_restarts, pause)
    deadline = time.monotonic() + pause
    while (left := deadline - time.monotonic()) > 0:
        try:
            event = events.get(timeout=left)
        except Empty:
            return None
        if isinstance(event, Interrupt):
            return event
    return None
