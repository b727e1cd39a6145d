"""What the kernel says of a worker's processes. Linux alone; elsewhere nothing is known."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_STOPPED = "Tt"
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True)
class ProcessStat:
    """Some of ``/proc/PID/stat``.

    Attributes:
      stopped: by a signal or a debugger.
      group: number of its process group.
      cpu_seconds: that it has used, children that have ended included.
    """

    stopped: bool
    group: int
    cpu_seconds: float


def process_stat(process: int) -> ProcessStat | None:
    """The state of a process, or None where there is none or the kernel does not tell."""
    try:
        text = (_PROC / str(process) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    cpu = sum(int(ticks) for ticks in fields[11:15])
    return ProcessStat(fields[0] in _STOPPED, int(fields[2]), cpu / _TICKS_PER_SECOND)


@dataclass(frozen=True)
class Work:
    """What the processes of a group have done so far; it can shrink when one of them ends.

    Attributes:
      cpu_seconds: processor time.
      io_bytes: bytes read and written by system calls on files and pipes, sockets left out.
    """

    cpu_seconds: float
    io_bytes: int


def work_of_groups(groups: Collection[int]) -> dict[int, Work]:
    """The work of all processes in each of these process groups; one pass over all processes."""
    found = {group: Work(0.0, 0) for group in groups}
    for entry in os.scandir(_PROC) if _PROC.is_dir() else ():
        stat = process_stat(int(entry.name)) if entry.name.isdigit() else None
        if stat is not None and stat.group in found:
            before = found[stat.group]
            found[stat.group] = Work(
                before.cpu_seconds + stat.cpu_seconds,
                before.io_bytes + _io_bytes(Path(entry.path)),
            )
    return found


def _io_bytes(process: Path) -> int:
    try:
        lines = (process / "io").read_text(encoding="ascii").splitlines()
        return sum(int(line.partition(":")[2]) for line in lines[:2])  # rchar and wchar
    except (OSError, ValueError):
        return 0
