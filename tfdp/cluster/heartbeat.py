"""What a worker does at the moment, in a small file that its launcher watches.

The launcher names the file in ``TFDP_HEARTBEAT``; without the variable nothing happens here. The
worker overwrites one record in place, a few microseconds a beat, and a thread adds a tick each
second: a tick that stands still means that the process is stopped or does not get to run.
"""

from __future__ import annotations

import atexit
import contextlib
import enum
import faulthandler
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HEARTBEAT_VARIABLE: Final = "TFDP_HEARTBEAT"
TICK_SECONDS: Final = 1.0

STACKS_SIGNAL: Final = signal.SIGUSR1
"""Makes a worker whose record says so write the Python stacks of its threads to its log."""

_RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK")

_MAGIC = b"tfdpbt01"
_HEADER = struct.Struct("@8sqq")  # magic, process id, whether it writes stacks
_WORK = struct.Struct("@qqqqq")  # activity, step, epoch, progress, since
_TICKS = struct.Struct("@q")
_WORK_AT = _HEADER.size
_TICKS_AT = _WORK_AT + _WORK.size
_SIZE = _TICKS_AT + _TICKS.size


class Activity(enum.IntEnum):
    """What a worker does; `text` says it in a sentence "it is ...".

    The program's own code, which tfdp knows nothing of, is "starting" before training and
    "finished" after it. A process that is ending does not tick any more: Python's threads are gone,
    and TensorFlow may still wait for the other workers.
    """

    STARTING = 0
    MEETING = 1
    BUILDING = 2
    READING = 3
    STEP = 4
    VALIDATING = 5
    BATCH_CALLBACK = 6
    EPOCH_CALLBACK = 7
    SAVING = 8
    FINISHED = 9
    ENDING = 10
    BETWEEN = 11

    @property
    def text(self) -> str:
        """In words."""
        return _TEXTS[self]


_TEXTS: Final = {
    Activity.STARTING: "starting",
    Activity.MEETING: "meeting the others",
    Activity.BUILDING: "building the step",
    Activity.READING: "reading data",
    Activity.STEP: "in a training step",
    Activity.VALIDATING: "validating",
    Activity.BATCH_CALLBACK: "in a callback at the end of a batch",
    Activity.EPOCH_CALLBACK: "in a callback at the end of an epoch",
    Activity.SAVING: "saving a checkpoint",
    Activity.FINISHED: "finished",
    Activity.ENDING: "ending its process",
    Activity.BETWEEN: "between two steps",
}


@dataclass(frozen=True)
class Beat:
    """A record, as it was read.

    Attributes:
      process: id of the worker's process; not that of its launcher's child, where a script stands
        between the two.
      writes_stacks: whether the process answers `STACKS_SIGNAL`, which otherwise would end it.
      activity: what it does.
      step: training steps of the run that are finished.
      epoch: number of the epoch, from 0.
      progress: grows each time the worker begins to do something.
      since: `time.monotonic` of that moment.
      ticks: grows each second while the process runs.
    """

    process: int
    writes_stacks: bool
    activity: Activity
    step: int
    epoch: int
    progress: int
    since: float
    ticks: int


def create_record(path: Path) -> None:
    """Makes the file, with a record of a worker that has not started; the launcher calls this.

    Raises:
      OSError: it cannot be written.
    """
    path.write_bytes(_HEADER.pack(_MAGIC, 0, 0) + _WORK.pack(0, 0, 0, 0, 0) + _TICKS.pack(0))


def read_record(path: Path) -> Beat | None:
    """The record in a file of `create_record`, or None where nobody has begun to write to it."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if len(data) != _SIZE:
        return None
    magic, process, stacks = _HEADER.unpack_from(data)
    activity, step, epoch, progress, since = _WORK.unpack_from(data, _WORK_AT)
    (ticks,) = _TICKS.unpack_from(data, _TICKS_AT)
    if magic != _MAGIC or process <= 0 or activity not in _TEXTS:
        return None
    return Beat(
        process, bool(stacks), Activity(activity), step, epoch, progress, since / 1e9, ticks
    )


class Heartbeat:
    """The worker's side. All methods do nothing where no launcher watches.

    Attributes:
      path: the file, or None.
    """

    path: Path | None = None

    def enter(self, activity: Activity, *, step: int | None = None) -> None:
        """The worker begins to do this.

        Args:
          activity: what.
          step: training steps of the run that are finished, if the number has changed.
        """

    def begin_epoch(self, epoch: int, step: int | None = None) -> None:
        """Numbers of the epoch that begins, from 0, and of the steps finished before it."""

    def finish_step(self, activity: Activity) -> None:
        """A training step is finished; the worker goes on to do this."""

    @property
    def activity(self) -> Activity:
        """What was entered last."""
        return Activity.STARTING


class _FileHeartbeat(Heartbeat):
    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._file = descriptor
        self._activity, self._step, self._epoch, self._progress = Activity.STARTING, 0, 0, 0
        self._write(_HEADER.pack(_MAGIC, os.getpid(), _register_stacks()), 0)
        self.enter(Activity.STARTING)
        threading.Thread(target=self._tick, name="tfdp heartbeat", daemon=True).start()
        os.register_at_fork(after_in_child=self._stop)
        atexit.register(self.enter, Activity.ENDING)

    def enter(self, activity: Activity, *, step: int | None = None) -> None:
        self._activity = activity
        if step is not None:
            self._step = step
        self._progress += 1
        now = time.monotonic_ns()
        self._write(_WORK.pack(activity, self._step, self._epoch, self._progress, now), _WORK_AT)

    def begin_epoch(self, epoch: int, step: int | None = None) -> None:
        self._epoch = epoch
        self.enter(Activity.EPOCH_CALLBACK, step=step)

    def finish_step(self, activity: Activity) -> None:
        self.enter(activity, step=self._step + 1)

    @property
    def activity(self) -> Activity:
        return self._activity

    def _tick(self) -> None:
        ticks = 0
        while self._file >= 0:
            ticks += 1
            self._write(_TICKS.pack(ticks), _TICKS_AT)
            time.sleep(TICK_SECONDS)

    def _write(self, data: bytes, offset: int) -> None:
        # A beat that cannot be written must not end the training that it tells of.
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.pwrite(self._file, data, offset)

    def _stop(self) -> None:
        """In a child of this process: it has no thread that ticks, and is not the worker."""
        os.close(self._file)
        self._file = -1


_lock = threading.Lock()
_current: Heartbeat | None = None


def current(environ: MutableMapping[str, str] = os.environ) -> Heartbeat:
    """This process's heartbeat; the first call starts it, if a launcher asks for one.

    The first process that comes has the record as long as it lives: one that it has started, and
    that inherits its environment, gets a heartbeat that does nothing. So do the ranks of an mpiexec
    that a launcher has started: one of them cannot speak for all.
    """
    global _current
    if _current is None:
        with _lock:
            if _current is None:
                is_rank = any(name in environ for name in _RANKS)
                _current = _start("" if is_rank else environ.get(HEARTBEAT_VARIABLE, ""))
    return _current


@contextlib.contextmanager
def activity(name: str | Activity) -> Iterator[None]:
    """Says that the block does this, ``"saving a checkpoint"`` say; then what was before goes on.

    In another thread than the main one it does nothing: what a worker does is what its main
    thread does.

    Raises:
      ValueError: there is no such activity.
    """
    entered = _named(name)
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    beat = current()
    before = beat.activity
    beat.enter(entered)
    try:
        yield
    finally:
        beat.enter(before)


def _named(name: str | Activity) -> Activity:
    if isinstance(name, Activity):
        return name
    for each, text in _TEXTS.items():
        if text == name:
            return each
    raise ValueError(f'"{name}" is no activity; there are: {", ".join(_TEXTS.values())}')


def _start(path: str) -> Heartbeat:
    if not path:
        return Heartbeat()
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return Heartbeat()
    beat = read_record(Path(path))
    taken = beat is not None and beat.process != os.getpid() and _lives(beat.process)
    if taken or os.fstat(descriptor).st_size != _SIZE:
        os.close(descriptor)
        return Heartbeat()
    return _FileHeartbeat(Path(path), descriptor)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def _register_stacks() -> bool:
    """Lets the process answer `STACKS_SIGNAL`, unless its program has another use for it."""
    if signal.getsignal(STACKS_SIGNAL) != signal.SIG_DFL or sys.__stderr__ is None:
        return False
    try:
        faulthandler.register(STACKS_SIGNAL, file=sys.__stderr__, all_threads=True)
    except (OSError, ValueError, RuntimeError):
        return False  # no file behind it
    return True
