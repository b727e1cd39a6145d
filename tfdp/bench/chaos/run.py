"""Runs the job twice, once in peace and once with faults, and compares what they leave."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tfdp.bench.chaos import job
from tfdp.bench.chaos.faults import Fault, Scene, network_cut
from tfdp.bench.chaos.hosts_launch import HostsLaunch
from tfdp.bench.chaos.network import TwoHosts, why_no_hosts
from tfdp.bench.chaos.outcome import ChaosReport, Outcome
from tfdp.bench.chaos.watched import WatchedLaunch
from tfdp.errors import RunError, TfdpError
from tfdp.training.checkpoints import CheckpointStore
from tfdp.training.incidents import read_incidents

WORKERS = 2
STALL_SECONDS = 8.0
RUN_SECONDS = 150.0
"""For one fault, from the start of its group until the run goes on."""

_LOOK_SECONDS = 0.0005
_SAMPLE_SECONDS = 1.0
_SPARE_RESTARTS = 5
_STEP_SECONDS = 0.5
"""What a step may take on a machine that does much else."""

Launch = WatchedLaunch | HostsLaunch


@dataclass(frozen=True)
class ChaosOptions:
    """What to do.

    Attributes:
      faults: in the order in which they strike.
      steps: that the run takes at least.
      pause_seconds: from one fault survived to the next.
      directory: where both runs are written; must be empty.
    """

    faults: Sequence[Fault]
    steps: int
    pause_seconds: float
    directory: Path


def run_chaos(options: ChaosOptions, say: Callable[[str], None]) -> ChaosReport:
    """Trains in peace, then with faults.

    Args:
      options: what to do.
      say: is told what happens.

    Raises:
      RunError: the run without faults has failed.
    """
    epochs = -(-options.steps // job.STEPS_PER_EPOCH)
    say(f"a run of {epochs * job.STEPS_PER_EPOCH} steps without faults, to compare with")
    peace = _Campaign(options.directory / "peace", epochs, say)
    peace.finish_in_peace()
    here = [fault for fault in options.faults if not fault.needs_hosts]
    apart = [fault for fault in options.faults if fault.needs_hosts]
    reason = why_no_hosts() if apart else None
    suffered = _Suffered(finished=True)
    if here:
        campaign = _Campaign(options.directory / "chaos", epochs, say)
        suffered.add(campaign.suffer(here, options.pause_seconds), peace, campaign)
    if apart and reason is None:
        with TwoHosts() as hosts:
            campaign = _Campaign(options.directory / "apart", epochs, say, hosts)
            faults = [network_cut(fault, hosts) for fault in apart]
            suffered.add(campaign.suffer(faults, options.pause_seconds), peace, campaign)
    return ChaosReport(
        workers=WORKERS,
        steps=epochs * job.STEPS_PER_EPOCH,
        outcomes=suffered.outcomes,
        skipped={} if reason is None else {fault.name: reason for fault in apart},
        finished=suffered.finished,
        differences=suffered.differences,
        memory=suffered.memory,
        leaked=suffered.leaked,
    )


@dataclass
class _Suffered:
    outcomes: list[Outcome] = field(default_factory=list)
    finished: bool = False
    memory: dict[int, list[int]] = field(default_factory=dict)
    leaked: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    def add(self, other: _Suffered, peace: _Campaign, chaos: _Campaign) -> None:
        """Takes what another run has suffered, and how it differs from that in peace."""
        self.outcomes += other.outcomes
        self.finished = self.finished and other.finished
        self.leaked += other.leaked
        for index, sizes in other.memory.items():
            self.memory.setdefault(index, []).extend(sizes)
        if other.finished:
            self.differences += _differences(peace.checkpoints, chaos.checkpoints)


class _Campaign:
    """One run, through as many launches as it takes.

    Args:
      directory: where it is written.
      epochs: of the run.
      say: is told what happens.
      hosts: with a worker on each; None: all workers are on this machine.
    """

    def __init__(
        self,
        directory: Path,
        epochs: int,
        say: Callable[[str], None],
        hosts: TwoHosts | None = None,
    ) -> None:
        directory.mkdir(parents=True)
        self._hosts = hosts
        self._run_directory = directory / "run"
        self._logs = directory / "logs"
        self._config = directory / "config.yaml"
        self._config.write_text(job.config(self._run_directory, epochs).to_yaml())
        self._seconds = RUN_SECONDS * 4 + epochs * job.STEPS_PER_EPOCH * _STEP_SECONDS
        self._say = say
        self._result = _Suffered()
        self._sampled = 0.0
        self._processes: set[int] = set()

    @property
    def checkpoints(self) -> Path:
        """Of the run."""
        return self._run_directory / "checkpoints"

    def finish_in_peace(self) -> None:
        """Trains to the end.

        Raises:
          RunError: that failed.
        """
        launch = WatchedLaunch(self._config, self._logs, ("--workers", str(WORKERS)))
        try:
            if launch.wait(self._seconds) != 0:
                said = "\n".join(line.text for line in launch.lines[-20:])
                raise RunError(f"the run without faults has failed:\n{said}")
        finally:
            launch.end()

    def suffer(self, faults: Sequence[Fault], pause_seconds: float) -> _Suffered:
        """Trains to the end while the faults strike."""
        launch = self._launch(len(faults))
        try:
            for number, fault in enumerate(faults):
                struck = self._strike(launch, fault)
                if struck is None:
                    self._say(f"{fault.name}: the run has ended before its moment")
                    break
                if fault.needs_launch and launch.wait(RUN_SECONDS) is not None:
                    launch.end()
                    launch = self._launch(len(faults) - number)
                outcome = self._watch_recovery(launch, fault, *struck)
                self._result.outcomes.append(outcome)
                self._say(f"{fault.name}: {'survived' if outcome.survived else 'NOT survived'}")
                if not outcome.survived:
                    self._say("the end of what the launcher said:")
                    self._say("\n".join(f"  | {line.text}" for line in launch.lines[-15:]))
                    break
                self._pass_time(launch, pause_seconds)
            self._result.finished = self._until_end(launch)
        finally:
            launch.end()
        self._result.leaked += self._left_behind()
        return self._result

    def _launch(self, restarts: int) -> Launch:
        options = ["--max-restarts", str(restarts + _SPARE_RESTARTS)]
        options += ["--stall-timeout", str(STALL_SECONDS)]
        if self._hosts is not None:
            return HostsLaunch(self._config, self._logs, options, self._hosts)
        return WatchedLaunch(self._config, self._logs, ["--workers", str(WORKERS), *options])

    def _strike(self, launch: Launch, fault: Fault) -> tuple[int, float] | None:
        """Waits for the moment; returns the step and the time of the fault, if it came."""
        first_step = self._newest_step(launch) + 5
        end = time.monotonic() + RUN_SECONDS
        while time.monotonic() < end and launch.status is None:
            beats = launch.beats()
            self._sample(launch)
            if fault.moment(Scene(beats, self.checkpoints, first_step)):
                step = max(beat.step for beat in beats.values())
                now = time.monotonic()
                with contextlib.suppress(ProcessLookupError):
                    fault.strike(beats[fault.worker].process, self.checkpoints)
                return step, now
            time.sleep(_LOOK_SECONDS)
        return None

    def _watch_recovery(self, launch: Launch, fault: Fault, step: int, struck: float) -> Outcome:
        """Waits until the run has come further than where it was struck."""
        before = len(read_incidents(self._run_directory / "incidents.jsonl"))
        resumed_from: int | None = None
        end = struck + RUN_SECONDS
        recovered: float | None = None
        while time.monotonic() < end and recovered is None:
            self._sample(launch)
            if fault.ends_group and resumed_from is None:
                resumed_from = self._resumed_from(before, launch, struck)
            went_on = not fault.ends_group or resumed_from is not None
            if launch.status == 0 or (went_on and self._newest_step(launch) > step):
                recovered = time.monotonic() - struck
            elif launch.status not in (None, 0):
                break
            time.sleep(_LOOK_SECONDS * 10)
        noticed = launch.detected_after(struck) if fault.ends_group else None
        return Outcome(
            fault=fault.name,
            survived=recovered is not None,
            step=step,
            repeated_steps=max(0, step - (resumed_from or 0)) if fault.ends_group else 0,
            detection_seconds=None if noticed is None else noticed - struck,
            recovery_seconds=recovered,
        )

    def _resumed_from(self, before: int, launch: Launch, struck: float) -> int | None:
        """The step from which the run went on, once it has."""
        incidents = read_incidents(self._run_directory / "incidents.jsonl")
        steps = [each.step or 0 for each in incidents[before:] if each.kind == "resumed"]
        if steps:
            return steps[-1]
        # Before the first checkpoint there is nothing to resume: the run begins again.
        started = launch.detected_after(struck) is not None and bool(launch.beats())
        return 0 if started and not list(self.checkpoints.glob("step-*.npz")) else None

    def _newest_step(self, launch: Launch) -> int:
        return max((beat.step for beat in launch.beats().values()), default=0)

    def _pass_time(self, launch: Launch, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and launch.status is None:
            self._sample(launch)
            time.sleep(0.2)

    def _until_end(self, launch: Launch) -> bool:
        end = time.monotonic() + self._seconds
        while time.monotonic() < end and launch.status is None:
            self._sample(launch)
            time.sleep(0.2)
        return launch.status == 0

    def _sample(self, launch: Launch) -> None:
        """Notes the workers' memory, once a second."""
        now = time.monotonic()
        if now - self._sampled < _SAMPLE_SECONDS:
            return
        self._sampled = now
        for index, beat in launch.beats().items():
            self._processes.add(beat.process)
            if beat.step:
                size = _resident_bytes(beat.process)
                if size:
                    self._result.memory.setdefault(index, []).append(size)

    def _left_behind(self) -> list[str]:
        left = [f"process {number}" for number in self._processes if _runs(number)]
        partial = self._run_directory.rglob(".*.partial*")
        return left + [f"file {path.name}" for path in partial]


def _differences(first: Path, second: Path) -> list[str]:
    """Names of the variables, and of what else, in which the last checkpoints differ."""
    try:
        states = [CheckpointStore(path).load_latest() for path in (first, second)]
    except TfdpError as error:
        return [error.message]
    if states[0] is None or states[1] is None:
        return ["a run without checkpoints"]
    (one, _), (other, _) = states[0], states[1]
    different = [
        mine.name
        for mine, theirs in zip(one.variables, other.variables, strict=True)
        if not np.array_equal(mine.value, theirs.value)
    ]
    if one.progress.history != other.progress.history:
        different.append("the metrics of an epoch")
    if one.progress.total_steps != other.progress.total_steps:
        different.append("the number of steps")
    return different


def _resident_bytes(process: int) -> int:
    try:
        text = Path(f"/proc/{process}/statm").read_text()
    except OSError:
        return 0
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
