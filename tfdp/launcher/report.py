"""What is said about a group that failed."""

from __future__ import annotations

from tfdp.launcher.group import Failure


def describe(failure: Failure) -> str:
    """Several lines: who failed first, when, how, and the end of its output."""
    lines = [
        f"worker {failure.exit.index} failed first, with {failure.exit.describe()}, "
        f"{failure.seconds:.1f} s after the start",
        *(f"  | {line}" for line in failure.lines),
        f"its whole output: {failure.log}",
    ]
    return "\n".join(lines)
