"""The faults: when each strikes, and what it does."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import resource
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tfdp.bench.chaos.job import STEPS_PER_EPOCH
from tfdp.bench.chaos.network import TwoHosts
from tfdp.cluster.heartbeat import Activity, Beat

SLOW_SECONDS = 6.0
"""How long the slow worker is slow."""

CUT_SECONDS = 30.0
"""How long the network is cut: so long that a worker is taken for gone."""

_SLOW_PART = 0.1
_CUT_NAME = f"the network between two hosts cut for {CUT_SECONDS:.0f} s"


@dataclass(frozen=True)
class Scene:
    """What a fault can look at.

    Attributes:
      beats: what each worker does.
      checkpoints: the directory of the run's checkpoints.
      first_step: the step from which the fault may strike.
    """

    beats: Mapping[int, Beat]
    checkpoints: Path
    first_step: int


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong.

    Attributes:
      name: for the report.
      worker: whom it strikes.
      moment: whether it is time.
      strike: given the process of the worker and the directory of the checkpoints.
      ends_group: whether the group has to be started again.
      needs_launch: whether it ends the launch too, which is then repeated by hand.
      needs_hosts: whether it is one of the network between two hosts, with a worker on each;
        `strike` is then given by `network_cut`.
    """

    name: str
    worker: int
    moment: Callable[[Scene], bool]
    strike: Callable[[int, Path], None]
    ends_group: bool = True
    needs_launch: bool = False
    needs_hosts: bool = False


def all_faults() -> list[Fault]:
    """Every fault for a group of two workers, in the order in which they strike a run."""
    return [
        Fault("kill -9 of the chief before the first step", 0, _building(0), _kill),
        Fault("kill -9 of worker 1 before the first step", 1, _building(1), _kill),
        Fault("kill -9 of worker 1 in a step", 1, _in(Activity.STEP, 1), _kill),
        Fault("kill -9 of the chief in a step", 0, _in(Activity.STEP, 0), _kill),
        Fault("kill -9 of the chief while it writes a checkpoint", 0, _writing, _kill),
        Fault("kill -9 of worker 1 in a validation", 1, _in(Activity.VALIDATING, 1), _kill),
        Fault("kill -9 of the chief at the end of an epoch", 0, _epoch_end(0), _kill),
        Fault("kill -9, and the latest checkpoint damaged", 1, _saved, _kill_and_damage),
        Fault("the chief cannot write any more (file size limit)", 0, _in(Activity.STEP, 0), _full),
        Fault("worker 1 stopped (SIGSTOP)", 1, _in(Activity.STEP, 1), _stop),
        Fault("worker 1 ten times slower", 1, _in(Activity.STEP, 1), _slow, ends_group=False),
        Fault("SIGTERM to worker 1", 1, _in(Activity.STEP, 1), _terminate, needs_launch=True),
        Fault(_CUT_NAME, 1, _in(Activity.STEP, 1), _no_network, needs_hosts=True),
    ]


def network_cut(fault: Fault, hosts: TwoHosts) -> Fault:
    """The fault, between these hosts."""

    def cut(process: int, checkpoints: Path) -> None:
        del process, checkpoints
        hosts.cut()
        time.sleep(CUT_SECONDS)
        hosts.mend()

    return dataclasses.replace(fault, strike=cut)


def _building(worker: int) -> Callable[[Scene], bool]:
    return lambda scene: (
        worker in scene.beats
        and scene.beats[worker].activity in (Activity.BUILDING, Activity.READING)
    )


def _in(activity: Activity, worker: int) -> Callable[[Scene], bool]:
    return lambda scene: (
        worker in scene.beats
        and scene.beats[worker].activity == activity
        and scene.beats[worker].step >= scene.first_step
    )


def _epoch_end(worker: int) -> Callable[[Scene], bool]:
    """After the last step of an epoch, in what follows: validation, callbacks, a checkpoint."""
    after = (Activity.EPOCH_CALLBACK, Activity.SAVING, Activity.VALIDATING)
    return lambda scene: (
        worker in scene.beats
        and scene.beats[worker].activity in after
        and scene.beats[worker].step >= scene.first_step
        and scene.beats[worker].step % STEPS_PER_EPOCH == 0
    )


def _writing(scene: Scene) -> bool:
    """A checkpoint is half there."""
    started = 0 in scene.beats and scene.beats[0].step >= scene.first_step
    return started and any(scene.checkpoints.glob(".*.partial*"))


def _saved(scene: Scene) -> bool:
    """There are two checkpoints, of which one may be lost."""
    return _in(Activity.STEP, 1)(scene) and len(list(scene.checkpoints.glob("step-*.npz"))) >= 2


def _kill(process: int, checkpoints: Path) -> None:
    del checkpoints
    os.kill(process, signal.SIGKILL)


def _stop(process: int, checkpoints: Path) -> None:
    del checkpoints
    os.kill(process, signal.SIGSTOP)


def _no_network(process: int, checkpoints: Path) -> None:
    raise AssertionError("network_cut says between which hosts")


def _terminate(process: int, checkpoints: Path) -> None:
    del checkpoints
    os.kill(process, signal.SIGTERM)


def _kill_and_damage(process: int, checkpoints: Path) -> None:
    _kill(process, checkpoints)
    time.sleep(0.3)  # what was being written is there, or never will be
    latest = max(checkpoints.glob("step-*.npz"))
    content = bytearray(latest.read_bytes())
    content[len(content) // 2] ^= 0xFF
    latest.write_bytes(bytes(content))


def _full(process: int, checkpoints: Path) -> None:
    """No file may grow beyond a kilobyte: what a full disk does, to one process alone."""
    del checkpoints
    resource.prlimit(process, resource.RLIMIT_FSIZE, (1024, 1024))


def _slow(process: int, checkpoints: Path) -> None:
    """Lets the process run for a tenth of the time."""
    del checkpoints
    end = time.monotonic() + SLOW_SECONDS
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < end:
            os.kill(process, signal.SIGSTOP)
            time.sleep(0.05 * (1 - _SLOW_PART))
            os.kill(process, signal.SIGCONT)
            time.sleep(0.05 * _SLOW_PART)
