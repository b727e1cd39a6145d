"""What is said about a group that failed."""

from __future__ import annotations

from tfdp.launcher.group import Failure


def describe(failure: Failure) -> str:
    """Several lines: who failed first, when, how, and the end of its output."""
    index, seconds = failure.exit.index, f"{failure.seconds:.1f} s after the start"
    if failure.stall is None:
        first = f"worker {index} failed first, with {failure.exit.describe()}, {seconds}"
    else:
        first = f"worker {index} stalled, {seconds}: {failure.stall}"
    lines = [
        first,
        *(f"  | {line}" for line in failure.lines),
        f"its whole output: {failure.log}",
    ]
    if failure.stacks:
        logs = ", ".join(str(log) for log in failure.stacks)
        lines.append(f"Python stacks of all threads are at the end of: {logs}")
    return "\n".join(lines)
