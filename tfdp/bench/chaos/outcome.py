"""What became of a fault, of a run, and how they are shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

import tfdp

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Outcome:
    """What became of one fault.

    Attributes:
      fault: its name.
      survived: the run went on by itself (or, where it says so, by the same command again).
      step: steps that were finished when it struck.
      repeated_steps: of those, how many were taken again.
      detection_seconds: until the launcher noticed; None where there was nothing to notice.
      recovery_seconds: until a step was finished that had not been finished before.
    """

    fault: str
    survived: bool
    step: int
    repeated_steps: int
    detection_seconds: float | None
    recovery_seconds: float | None


@dataclass(frozen=True)
class ChaosReport:
    """Everything that was found.

    Attributes:
      workers: processes of the run.
      steps: that it took.
      outcomes: of the faults, in their order.
      skipped: faults that could not be made to happen here, with the reason.
      finished: the run came to its end.
      differences: names of what is not, to the bit, what a run without faults has left.
      memory: resident bytes of each worker's process over the run, by index.
      leaked: processes, ports and files that were left behind.
    """

    workers: int
    steps: int
    outcomes: Sequence[Outcome]
    skipped: Mapping[str, str]
    finished: bool
    differences: Sequence[str]
    memory: Mapping[int, Sequence[int]]
    leaked: Sequence[str]

    @property
    def passed(self) -> bool:
        """Whether every fault was survived, nothing was lost and nothing left behind."""
        survived = all(outcome.survived for outcome in self.outcomes)
        return self.finished and survived and not self.differences and not self.leaked

    def table(self) -> Table:
        """For a terminal."""
        table = Table(
            title=f"{len(self.outcomes)} faults, {self.steps} steps on {self.workers} workers"
        )
        table.add_column("fault", overflow="fold")
        for heading in ("survived", "at step", "repeated", "noticed after", "went on after"):
            table.add_column(heading, justify="right")
        for each in self.outcomes:
            table.add_row(
                each.fault,
                "yes" if each.survived else "NO",
                str(each.step),
                str(each.repeated_steps),
                _seconds(each.detection_seconds),
                _seconds(each.recovery_seconds),
            )
        for name in self.skipped:
            table.add_row(name, "skipped", *["-"] * 4)
        return table

    def summary(self) -> str:
        """Some lines of text."""
        survived = sum(outcome.survived for outcome in self.outcomes)
        lines = [
            f"{survived} of {len(self.outcomes)} faults survived; the run "
            f"{'came to its end' if self.finished else 'did NOT come to its end'}",
            "final weights, optimizer and metrics: "
            + (
                f"DIFFERENT in {', '.join(self.differences)}"
                if self.differences
                else "equal to the bit to those of a run without faults"
                if self.finished
                else "not compared"
            ),
            "left behind: " + (", ".join(self.leaked) or "nothing"),
        ]
        lines += [f"skipped: {name}: {reason}" for name, reason in self.skipped.items()]
        for index, sizes in sorted(self.memory.items()):
            if sizes:
                low, high = min(sizes) / 2**20, max(sizes) / 2**20
                lines.append(f"memory of worker {index}: {low:.0f} to {high:.0f} MiB")
        return "\n".join(lines)

    def to_json(self) -> str:
        """Everything."""
        content: dict[str, Any] = {"version": FORMAT_VERSION, "tfdp": tfdp.__version__}
        return json.dumps(content | asdict(self) | {"passed": self.passed}, indent=1)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
