"""Runs a group, and starts it again when it fails."""

from __future__ import annotations

import contextlib
import logging
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TextIO

from tfdp.cluster.absence import read_absent
from tfdp.cluster.heartbeat import create_record
from tfdp.errors import RunError
from tfdp.launcher.environment import GroupShape, worker_environments
from tfdp.launcher.group import Failure, Group, GroupResult
from tfdp.launcher.interrupts import Interrupt, interrupts
from tfdp.launcher.members import Ended, Members
from tfdp.launcher.mpi import MpiRanks
from tfdp.launcher.output import Printer
from tfdp.launcher.ports import free_ports
from tfdp.launcher.process import WorkerSpec
from tfdp.launcher.report import describe
from tfdp.launcher.stalls import DEFAULT_STALL_SECONDS
from tfdp.launcher.watch import GroupWatch
from tfdp.launcher.watchdog import Watchdog

DEFAULT_GRACE_SECONDS = 30.0
"""Enough to save a checkpoint; Kubernetes gives as much."""

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
      min_workers: with how many workers the group may go on, without those that stay away or fail
        again; None: with all.
      stall_timeout_seconds: how long the workers may stand still; None: for ever.
      final_statuses: exit codes after which another start would fail in the same way.
      grace_seconds: between SIGTERM and SIGKILL; after a failure at most 5.
      backoff_seconds: before the first restart; doubled for each further one.
      timeout_seconds: for each start of the group; None for no limit.
      mpi: whether each worker is a rank of MPI, with its index as the number.
    """

    shape: GroupShape
    command: Callable[[int], Sequence[str]]
    addresses: tuple[str, ...] | None = None
    indexes: tuple[int, ...] | None = None
    log_directory: Path
    verbose: bool = False
    max_restarts: int = 0
    min_workers: int | None = None
    stall_timeout_seconds: float | None = DEFAULT_STALL_SECONDS
    final_statuses: frozenset[int] = field(default_factory=frozenset)
    grace_seconds: float = DEFAULT_GRACE_SECONDS
    backoff_seconds: float = 1.0
    timeout_seconds: float | None = None
    mpi: bool = False

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
      StrategyError: there are not enough GPUs, or no mpiexec.
      RunError: the logs cannot be written.
      BrokenPipeError: the reader of `stream` has left.
    """
    events: SimpleQueue[Any] = SimpleQueue()
    printer = Printer(stream)
    members = Members(plan.shape.workers, plan.indexes_here(), plan.min_workers)
    with interrupts(events), Watchdog() as watchdog, _record_directory() as folder:
        for restarts in range(plan.max_restarts + 1):
            with _ranks(plan, len(members.current), environ, watchdog) as ranks:
                start = _Start(plan, environ, members.current, restarts, folder, ranks)
                group = Group(
                    start.specs,
                    shown=start.indexes if plan.verbose else start.indexes[:1],
                    printer=printer,
                    grace_seconds=plan.grace_seconds,
                    events=events,
                    watchdog=watchdog,
                    watch=start.watch(),
                )
                result = group.run(plan.timeout_seconds)
            if result.failure is None or not _may_restart(plan, result, result.failure, restarts):
                return result
            _log.warning("%s", describe(result.failure))
            _go_on_without(members.learn(start.ended(result.failure), restarts), members, plan)
            if not set(plan.indexes_here()) & set(members.current):
                return result
            interrupt = _back_off(plan, restarts, events)
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


def _record_directory() -> tempfile.TemporaryDirectory[str]:
    """For the workers' heartbeats: on this machine's disk, where logs may be on a shared one.

    Raises:
      RunError: it cannot be made.
    """
    try:
        return tempfile.TemporaryDirectory(prefix="tfdp-heartbeats-")
    except OSError as error:
        raise RunError(
            f"a temporary directory cannot be made in {tempfile.gettempdir()}: {error.strerror}",
            hint="Set TMPDIR to another directory.",
        ) from None


def _ranks(
    plan: LaunchPlan, count: int, environ: Mapping[str, str], watchdog: Watchdog
) -> contextlib.AbstractContextManager[MpiRanks | None]:
    return MpiRanks(count, environ, watchdog) if plan.mpi else contextlib.nullcontext()


class _Start:
    """One start of a group.

    Args:
      plan: what to run.
      environ: what the workers inherit.
      members: which workers take part.
      restarts: how often the group was started before.
      folder: for the workers' heartbeats.
      ranks: of MPI, where the workers have some.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        environ: Mapping[str, str],
        members: tuple[int, ...],
        restarts: int,
        folder: str,
        ranks: MpiRanks | None,
    ) -> None:
        self._plan = plan
        self._members = members
        self.indexes = tuple(index for index in plan.indexes_here() if index in members)
        self._addresses = _addresses(plan, members)
        suffix = f".restart-{restarts}" if restarts else ""
        self._records = {i: Path(folder) / f"worker-{i}{suffix}" for i in self.indexes}
        environments = worker_environments(
            plan.shape,
            self._addresses,
            plan.indexes_here(),
            environ,
            members=members,
            records=self._records,
            restarts=restarts,
        )
        command = plan.command(restarts)
        self.specs = []
        for index, own in environments.items():
            create_record(self._records[index])
            log = plan.log_directory / f"worker-{index}{suffix}.log"
            log.unlink(missing_ok=True)  # an earlier launch may have written to the same directory
            own_command = command if ranks is None else ranks.command(members.index(index), command)
            self.specs.append(WorkerSpec(index, own_command, own, log))

    def watch(self) -> GroupWatch | None:
        """Notices that the workers do not go on."""
        timeout = self._plan.stall_timeout_seconds
        if timeout is None:
            return None
        all_here = len(self.indexes) == len(self._members)
        return GroupWatch(self._records, timeout, all_here=all_here)

    def ended(self, failure: Failure) -> Ended:
        """How it has failed, with what the workers have told."""
        told = [read_absent(record) for record in self._records.values()]
        absent = {address for each in told for address in each.absent}
        excluded = {address for each in told for address in each.excluded}
        named = dict(zip(self._addresses, self._members, strict=True))
        return Ended(
            failure,
            {named[address] for address in absent if address in named},
            {named[address] for address in excluded if address in named},
        )


def _addresses(plan: LaunchPlan, members: tuple[int, ...]) -> tuple[str, ...]:
    if plan.addresses is not None:
        return tuple(plan.addresses[index] for index in members)
    return tuple(f"localhost:{port}" for port in free_ports(len(members)))


def _may_restart(plan: LaunchPlan, result: GroupResult, failure: Failure, restarts: int) -> bool:
    if result.interrupt is not None or restarts == plan.max_restarts:
        return False
    if failure.exit.status in plan.final_statuses:
        _log.warning("not started again: exit code %d would come back", failure.exit.status)
        return False
    return True


def _go_on_without(left_out: tuple[int, ...], members: Members, plan: LaunchPlan) -> None:
    """Says who is left out."""
    if not left_out:
        return
    listed = ", ".join(f"worker {index}" for index in left_out)
    _log.warning("%s left out: stays away, or has failed twice", listed)
    if set(plan.indexes_here()) & set(members.current):
        count = len(members.current)
        _log.warning("the group goes on with %d worker%s", count, "" if count == 1 else "s")
    else:
        _log.warning("no worker is left on this machine; the others may go on without it")


def _back_off(plan: LaunchPlan, restarts: int, events: SimpleQueue[Any]) -> Interrupt | None:
    """Waits; returns the signal that ended the wait, if one did."""
    pause = min(LONGEST_BACKOFF_SECONDS, plan.backoff_seconds * 2**restarts)
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
