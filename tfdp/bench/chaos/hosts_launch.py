"""A group with a worker on each of two "hosts", by a ``tfdp launch`` on each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tfdp.bench.chaos.network import TwoHosts
from tfdp.bench.chaos.watched import Line, WatchedLaunch
from tfdp.cluster.heartbeat import Beat


class HostsLaunch:
    """Both launches, seen as a `WatchedLaunch` is.

    Args:
      config: path of the config; a hosts file is written beside it.
      log_directory: of the workers' logs.
      options: further options of ``tfdp launch``.
      hosts: where the workers run.
    """

    def __init__(
        self, config: Path, log_directory: Path, options: Sequence[str], hosts: TwoHosts
    ) -> None:
        listed = config.with_name("hosts")
        listed.write_text("".join(f"{address}\n" for address in hosts.addresses))
        self._launches = [
            WatchedLaunch(
                config,
                log_directory / f"host-{number}",
                ["--hosts", str(listed), "--host", address, *options],
                hosts.command(number),
            )
            for number, address in enumerate(hosts.addresses)
        ]

    @property
    def lines(self) -> list[Line]:
        """What both launchers said, by time."""
        found = [line for launch in self._launches for line in launch.lines]
        return sorted(found, key=lambda line: line.at)

    @property
    def status(self) -> int | None:
        """The worse exit code, or None while one of them runs."""
        codes = [launch.status for launch in self._launches]
        return None if None in codes else max(codes, key=lambda code: abs(code or 0))

    def beats(self) -> dict[int, Beat]:
        """What the workers that run do, by index."""
        return {index: beat for each in self._launches for index, beat in each.beats().items()}

    def detected_after(self, moment: float) -> float | None:
        """When both launchers had noticed that something is wrong, after `moment`."""
        times = [launch.detected_after(moment) for launch in self._launches]
        return None if None in times else max(time for time in times if time is not None)

    def wait(self, seconds: float) -> int | None:
        """The worse exit code, or None if they have not ended in time."""
        end = time.monotonic() + seconds
        for launch in self._launches:
            launch.wait(max(0.0, end - time.monotonic()))
        return self.status

    def end(self) -> None:
        """Ends whatever of them is left."""
        for launch in self._launches:
            launch.end()
