"""What `tfdp bench hosts` prints and writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from rich.table import Table

from tfdp.bench.hosts import HostsOptions, OnLink
from tfdp.bench.report import machine
from tfdp.bench.sizes import describe_size
from tfdp.bench.spread import Spread, ratios

FORMAT_VERSION: Final = 1


class HostsReport:
    """All contestants on the link.

    Args:
      options: what was asked for.
      found: what was found.
      absent: what was not measured, with the reason.
    """

    def __init__(
        self, options: HostsOptions, found: Sequence[OnLink], absent: dict[str, str]
    ) -> None:
        self._options = options
        self._found = list(found)
        self._absent = absent

    def table(self) -> Table:
        """For a terminal; quartiles in parentheses."""
        options = self._options
        table = Table(
            title=f"All-reduce of {describe_size(options.size)}, 2 hosts x "
            f"{options.workers_per_host} workers x {options.devices} replicas, {options.rate}"
        )
        table.add_column("reducer")
        for heading in ("ms", "bytes sent / size", "formula", f"times as fast as {self._first}"):
            table.add_column(heading, justify="right")
        for own in self._found:
            table.add_row(
                own.name,
                Spread(tuple(own.seconds)).text(0, 1e3),
                " and ".join(f"{self._sent(own, end).median:.3f}" for end in (0, 1)),
                "" if own.expected is None else f"{own.expected:.3f}",
                self._ratio(own).text(2),
            )
        return table

    def lines(self) -> list[str]:
        """Who was left out, and what the bytes are."""
        return [
            "Bytes are those that each end of the link has sent, headers of TCP and IP included.",
            *(f"not measured: {name}: {reason}" for name, reason in self._absent.items()),
        ]

    def to_json(self) -> str:
        """Everything, each round."""
        return json.dumps(
            {
                "version": FORMAT_VERSION,
                "machine": machine(),
                "options": asdict(self._options),
                "contestants": [
                    {**asdict(own), "ratio": self._ratio(own).to_json()} for own in self._found
                ],
                "absent": self._absent,
            },
            indent=2,
        )

    @property
    def _first(self) -> str:
        return self._found[0].name

    def _ratio(self, own: OnLink) -> Spread:
        return ratios(self._found[0].seconds, own.seconds)

    def _sent(self, own: OnLink, end: int) -> Spread:
        return Spread(tuple(each[end] for each in own.sent))
