"""What a comparison found, to print or to read by a program."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tfdp.errors import ParityError

if TYPE_CHECKING:
    from rich.table import Table

Status = Literal["equal", "differs", "differs by definition", "not used"]

FEATURES = (
    "losses",
    "metrics",
    "predictions",
    "weights",
    "optimizer state",
    "statistics",
    "random streams",
)
"""What is compared, in the order of a report."""

TABLE_WIDTH = 110


@dataclass(frozen=True)
class Verdict:
    """One feature of one number of replicas.

    Attributes:
      replicas: how many.
      feature: one of `FEATURES`.
      status: "not used" where the model has nothing of the kind.
      reason: why it differs by definition, or what else there is to say; may be empty.
      step: the first step, from 1, after which it differs; None if equal or known at the end only.
      variable: what differs first (a variable, a metric); None if equal.
      difference: largest difference found, relative to the size of the value.
      tolerance: what is allowed, growth of rounding included.
    """

    replicas: int
    feature: str
    status: Status
    reason: str = ""
    step: int | None = None
    variable: str | None = None
    difference: float = 0.0
    tolerance: float = 0.0

    def detail(self) -> str:
        """Where and by how much it differs, and the reason, in one line."""
        parts = [] if self.variable is None else [f"{self.variable} by {self.difference:.1e}"]
        if self.variable is not None and self.step is not None:
            parts.append(f"first at step {self.step}")
        if self.status == "equal":
            parts.append(f"at most {self.difference:.0e}")
        return "; ".join([*parts, *([self.reason] if self.reason else [])])


@dataclass(frozen=True)
class Report:
    """Everything that `tfdp.verify` found.

    Attributes:
      verdicts: every feature of every number of replicas.
      what_ran: in words: epochs, steps, precision.
    """

    verdicts: tuple[Verdict, ...]
    what_ran: str

    @property
    def passed(self) -> bool:
        """Whether nothing differs, but for what must by definition."""
        return not any(verdict.status == "differs" for verdict in self.verdicts)

    @property
    def first_difference(self) -> Verdict | None:
        """The verdict with the earliest step among those that differ; None if there is none."""
        wrong = [verdict for verdict in self.verdicts if verdict.status == "differs"]
        order = {feature: place for place, feature in enumerate(_CAUSES_FIRST)}
        return min(
            wrong,
            key=lambda v: (v.step is None, v.step or 0, order[v.feature], v.replicas),
            default=None,
        )

    def verdict(self, feature: str, replicas: int) -> Verdict:
        """The verdict on one feature.

        Raises:
          KeyError: there is none of that feature and number of replicas.
        """
        for verdict in self.verdicts:
            if (verdict.feature, verdict.replicas) == (feature, replicas):
                return verdict
        raise KeyError(f"no verdict on {feature!r} with {replicas} replicas")

    def raise_if_different(self) -> None:
        """Raises a ParityError that names the first difference, if there is one."""
        first = self.first_difference
        if first is not None:
            raise ParityError(
                f"{first.replicas} replicas did not train what one device trained: "
                f"{first.feature}: {first.detail()}"
            )

    def to_json(self) -> str:
        """The whole report as JSON."""
        return json.dumps({"passed": self.passed, **dataclasses.asdict(self)}, indent=2)

    def table(self) -> Table:
        """The report for a terminal: one row for each feature and number of replicas."""
        from rich.table import Table
        from rich.text import Text

        table = Table(title="One device against N replicas", caption=self.what_ran)
        for column in ("replicas", "feature", "verdict", "detail"):
            table.add_column(column, justify="right" if column == "replicas" else "left")
        for replicas, verdicts in _by_replicas(self.verdicts):
            for verdict in verdicts:
                status = Text(verdict.status, style=_STYLES[verdict.status])
                table.add_row(str(replicas), verdict.feature, status, verdict.detail())
            table.add_section()
        return table

    def __str__(self) -> str:
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, width=TABLE_WIDTH).print(self.table())
        return text.getvalue()


_STYLES: dict[Status, str] = {
    "equal": "green",
    "differs": "bold red",
    "differs by definition": "yellow",
    "not used": "dim",
}
# Of what differs at the same step: a wrong update shows in the weights, and then everywhere.
_CAUSES_FIRST = (
    "random streams",
    "losses",
    "weights",
    "statistics",
    "optimizer state",
    "metrics",
    "predictions",
)


def _by_replicas(verdicts: Iterable[Verdict]) -> Iterable[tuple[int, list[Verdict]]]:
    groups: dict[int, list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(verdict.replicas, []).append(verdict)
    return groups.items()
