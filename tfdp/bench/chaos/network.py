"""Two "hosts" on one machine: network namespaces, joined by a cable that can be pulled out.

Nothing outside of the two namespaces is changed. The kernel lets only root make them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType

from tfdp.errors import RunError

_COMMAND_SECONDS = 10.0
_CABLE = "cable"


class TwoHosts:
    """Two network namespaces and the cable between them; leaving the context removes all of it.

    Attributes:
      addresses: of the two hosts, IPv4.
    """

    def __init__(self) -> None:
        self._names = tuple(f"tfdp-{os.getpid()}-{number}" for number in (1, 2))
        self.addresses = ("10.213.7.1", "10.213.7.2")

    def __enter__(self) -> TwoHosts:
        _remove_old()
        try:
            for name in self._names:
                _ip("netns", "add", name)
            first, second = self._names
            _ip(
                *("link", "add", _CABLE, "netns", first, "type", "veth"),
                *("peer", "name", _CABLE, "netns", second),
            )
            for name, address in zip(self._names, self.addresses, strict=True):
                _ip("-n", name, "address", "add", f"{address}/24", "dev", _CABLE)
                for device in ("lo", _CABLE):
                    _ip("-n", name, "link", "set", device, "up")
        except RunError:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._remove()

    def command(self, host: int) -> tuple[str, ...]:
        """What stands before a command that is to run on this host, 0 or 1."""
        return (_program(), "netns", "exec", self._names[host])

    def cut(self) -> None:
        """Pulls the cable out: what is sent is lost, and nobody is told."""
        _ip("-n", self._names[0], "link", "set", _CABLE, "down")

    def mend(self) -> None:
        """Puts the cable back."""
        _ip("-n", self._names[0], "link", "set", _CABLE, "up")

    def _remove(self) -> None:
        for name in self._names:
            with contextlib.suppress(RunError):
                _ip("netns", "delete", name)


def why_no_hosts() -> str | None:
    """Why `TwoHosts` cannot be had here; None where they can."""
    try:
        with TwoHosts():
            return None
    except RunError as error:
        return error.message


def _remove_old() -> None:
    """What processes have left that were killed."""
    for path in Path("/run/netns").glob("tfdp-*-*"):
        process = path.name.split("-")[1]
        if process.isdigit() and not Path("/proc", process).exists():
            with contextlib.suppress(RunError):
                _ip("netns", "delete", path.name)


def _program() -> str:
    return shutil.which("ip", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or "ip"


def _ip(*arguments: str) -> None:
    """`ip` of iproute2.

    Raises:
      RunError: it is missing or has failed.
    """
    told = f"ip {' '.join(arguments)}"
    try:
        done = subprocess.run(
            [_program(), *arguments],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunError(f"network namespaces cannot be made: {told}: {error}") from None
    if done.returncode:
        reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise RunError(f"network namespaces cannot be made: {told}: {reason}")
