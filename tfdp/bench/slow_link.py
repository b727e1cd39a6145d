"""A cable between two "hosts" that is as slow as asked for, and the bytes that went over it."""

from __future__ import annotations

import json
import subprocess

from tfdp.bench.chaos.network import TwoHosts
from tfdp.errors import RunError

DEVICE = "cable"
_COMMAND_SECONDS = 10.0
# What a token bucket may send at once: more than the kernel's timer lets through in one tick.
_BURST = "512kb"
_LATENCY = "50ms"


def limit(hosts: TwoHosts, rate: str) -> None:
    """Lets each end send at `rate`, as `tc` writes it ("1gbit").

    Raises:
      RunError: `tc` is missing or refuses.
    """
    for host in (0, 1):
        _run(
            hosts,
            host,
            *("tc", "qdisc", "replace", "dev", DEVICE, "root", "tbf"),
            *("rate", rate, "burst", _BURST, "latency", _LATENCY),
        )


def sent_bytes(hosts: TwoHosts) -> tuple[int, int]:
    """Bytes that each end has sent since the cable was made, headers included."""
    found = []
    for host in (0, 1):
        text = _run(hosts, host, "ip", "-s", "-j", "link", "show", "dev", DEVICE)
        (link,) = json.loads(text)
        found.append(int(link["stats64"]["tx"]["bytes"]))
    return found[0], found[1]


def _run(hosts: TwoHosts, host: int, *command: str) -> str:
    told = " ".join(command)
    try:
        done = subprocess.run(
            [*hosts.command(host), *command],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunError(f"the link cannot be made slow: {told}: {error}") from None
    if done.returncode:
        raise RunError(f"the link cannot be made slow: {told}: {' '.join(done.stderr.split())}")
    return done.stdout
