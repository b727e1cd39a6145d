"""Disk, memory and clock."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tfdp.cluster.doctor.base import Finding, Patient, failed, passed, warned

_GB = 1 << 30
_DISK_BYTES = (_GB // 4, 2 * _GB)
_MEMORY_BYTES = (_GB // 2, 2 * _GB)
"""Below the first training cannot work (TensorFlow alone takes as much); the second is tight."""

_CGROUP = Path("/sys/fs/cgroup")


def check_machine(patient: Patient) -> Iterator[Finding]:
    """Room for what a run writes, memory for what it holds, and a clock that is not wrong."""
    yield _disk(patient.output)
    yield _memory(_available_memory())
    yield _clock(patient.timeout_seconds)


def _disk(output: Path) -> Finding:
    place = output.absolute()
    while not place.exists():
        place = place.parent
    try:
        if not place.is_dir():
            raise NotADirectoryError(20, "it is not a directory")
        with tempfile.TemporaryFile(dir=place):
            pass
        free = shutil.disk_usage(place).free
    except OSError as error:
        return failed(
            "disk", f"{place} cannot be written to: {error.strerror}", "Set output.directory."
        )
    message = f"{free / _GB:.1f} GB free in {place}"
    return _against(free, _DISK_BYTES, "disk", message, "Make room, or set output.directory.")


def _memory(available: int | None) -> Finding:
    if available is None:
        return warned("memory", "cannot be found out on this system", "Look at it yourself.")
    message = f"{available / _GB:.1f} GB available"
    remedy = "End other programs, or raise the container's limit."
    return _against(available, _MEMORY_BYTES, "memory", message, remedy)


def _against(have: int, limits: tuple[int, int], check: str, message: str, remedy: str) -> Finding:
    least, enough = limits
    if have < least:
        return failed(check, message, remedy)
    return passed(check, message) if have >= enough else warned(check, message, remedy)


def _available_memory(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = _CGROUP) -> int | None:
    """Bytes that programs can still get: what the machine has, or what the container may take."""
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        available = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError, IndexError):
        return None
    try:
        limit = (cgroup / "memory.max").read_text(encoding="ascii").strip()
        if limit == "max":
            return available
        used = int((cgroup / "memory.current").read_text(encoding="ascii"))
        stat = (cgroup / "memory.stat").read_text(encoding="ascii").splitlines()
        # File contents that the kernel drops when memory is asked for.
        cache = int(dict(line.split() for line in stat)["inactive_file"])
        return min(available, int(limit) - used + cache)
    except (OSError, ValueError, KeyError):
        return available


def _clock(timeout_seconds: float) -> Finding:
    """Only what can be told without asking another machine."""
    newest = os.stat(__file__).st_mtime
    if time.time() < newest - 60:
        return failed(
            "clock",
            f"it is {time.strftime('%Y-%m-%d %H:%M')} by this machine's clock, which is before "
            "tfdp was installed",
            "Set the clock: files with times in the future confuse checkpoints and TensorBoard.",
        )
    if _is_synchronised(timeout_seconds) is False:
        return warned(
            "clock", "it is not synchronised", "Start a time service: timedatectl set-ntp true"
        )
    return passed("clock", "no fault that can be seen from here alone")


def _is_synchronised(timeout_seconds: float) -> bool | None:
    """What systemd says; None where it does not run."""
    try:
        done = subprocess.run(
            ["timedatectl", "show", "--property=NTPSynchronized", "--value"],
            timeout=min(5.0, timeout_seconds),
            capture_output=True,
            text=True,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {"yes": True, "no": False}.get(done.stdout.strip())
