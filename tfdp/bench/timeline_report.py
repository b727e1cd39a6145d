"""What `tfdp bench timeline` prints, writes and draws."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from tfdp.bench.plotting import new_figure, save
from tfdp.bench.report import machine
from tfdp.bench.spread import Spread
from tfdp.bench.timeline import MANY, ONE, Timeline, TimelineOptions
from tfdp.bench.timeline_step import Step

FORMAT_VERSION: Final = 1
_COLOURS: Final = {"forward": "tab:blue", "backward": "tab:cyan", "update": "tab:gray"}


class TimelineReport:
    """One measurement.

    Args:
      options: what was asked for.
      found: what was found.
    """

    def __init__(self, options: TimelineOptions, found: Timeline) -> None:
        self._options = options
        self._found = found

    def table(self) -> Table:
        """For a terminal."""
        table = Table(title=f"{self._options.model}, {self._options.reducer}, median (quartiles)")
        table.add_column("gradients in")
        for heading in ("buckets", "ms a step", "communication ms", "hidden share"):
            table.add_column(heading, justify="right")
        for way in (MANY, ONE):
            steps = self._found.steps[way]
            table.add_row(
                way,
                str(len(steps[0].buckets)),
                Spread(tuple(self._found.seconds[way])).text(1, 1e3),
                Spread(tuple(step.communication for step in steps)).text(1, 1e3),
                self._found.hidden[way].text(2),
            )
        return table

    def lines(self) -> list[str]:
        """The prediction beside what was measured."""
        return [
            f"predicted: buckets save {self._found.predicted * 1e3:.1f} ms a step, if "
            "communication took nothing from the backward pass",
            f"measured: they save {self._found.saved.text(1, 1e3)} ms, over "
            f"{self._options.rounds} pairs",
            "Communication includes waiting for the other replicas. Where replicas and "
            "communication share cores, what is hidden is not free: the backward pass gets longer.",
        ]

    def to_json(self) -> str:
        """Everything but the trace."""
        return json.dumps(
            {
                "version": FORMAT_VERSION,
                "machine": machine(),
                "options": asdict(self._options),
                "step_seconds": self._found.seconds,
                "hidden_share": {way: each.to_json() for way, each in self._found.hidden.items()},
                "predicted_saving_seconds": self._found.predicted,
                "saving_seconds": self._found.saved.to_json(),
                "steps": {
                    way: [asdict(step) for step in steps]
                    for way, steps in self._found.steps.items()
                },
            },
            indent=2,
        )

    def trace(self) -> str:
        """Chrome's trace event format, for chrome://tracing or ui.perfetto.dev.

        Each way of summing is a process there, with two rows for each replica.
        """
        events: list[dict[str, Any]] = []
        for number, (way, steps) in enumerate(self._found.steps.items()):
            events.append(_meta("process_name", number, 0, way))
            first = min(step.start for step in steps)
            for replica, step in enumerate(steps):
                rows = 2 * replica, 2 * replica + 1
                events.append(_meta("thread_name", number, rows[0], f"replica {replica} compute"))
                events.append(_meta("thread_name", number, rows[1], f"replica {replica} sums"))
                shift = step.start - first
                events += [
                    _event(name, number, rows[0], shift + begin, end - begin)
                    for name, begin, end in compute_spans(step)
                ]
                events += [
                    {
                        **_event(
                            f"bucket {place}", number, rows[1], shift + bucket.begin, bucket.seconds
                        ),
                        "args": {"bytes": bucket.size_bytes, "ready_us": bucket.ready * 1e6},
                    }
                    for place, bucket in enumerate(step.buckets)
                ]
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})

    def plot(self, path: Path) -> None:
        """A picture of the same; one panel for each way, two bars for each replica.

        Raises:
          RunError: matplotlib is missing, or the file cannot be written.
        """
        ways = list(self._found.steps)
        figure, rows = new_figure(1, width=10.0, height=2.2, rows=len(ways))
        longest = max(step.end for steps in self._found.steps.values() for step in steps)
        for (axes,), way in zip(rows, ways, strict=True):
            _draw(axes, self._found.steps[way])
            axes.set(title=way, xlim=(0, longest * 1.05e3), xlabel="ms")
        rows[0][0].legend(loc="upper right", ncols=4, fontsize="small")
        figure.suptitle(f"tfdp bench timeline: {self._options.model}, {self._options.reducer}")
        save(figure, path)


def compute_spans(step: Step) -> list[tuple[str, float, float]]:
    """Name, begin and end of what a replica computes; it waits between backward and update."""
    summed = max(step.backward_end, *(bucket.end for bucket in step.buckets))
    return [
        ("forward", 0.0, step.loss),
        ("backward", step.loss, step.backward_end),
        ("update", summed, step.end),
    ]


def _draw(axes: Any, steps: Sequence[Step]) -> None:
    first = min(step.start for step in steps)
    labels, places = [], []
    for replica, step in enumerate(steps):
        shift = step.start - first
        row = -2.5 * replica
        for name, begin, end in compute_spans(step):
            axes.barh(
                row,
                (end - begin) * 1e3,
                left=(shift + begin) * 1e3,
                color=_COLOURS[name],
                label=name if replica == 0 else None,
            )
        for place, bucket in enumerate(step.buckets):
            axes.barh(
                row - 1,
                bucket.seconds * 1e3,
                left=(shift + bucket.begin) * 1e3,
                color="tab:orange",
                edgecolor="white",
                label="communication" if replica == 0 and place == 0 else None,
            )
        labels += [f"replica {replica}", "sums"]
        places += [row, row - 1]
    axes.set_yticks(places, labels)


def _event(name: str, process: int, row: int, begin: float, seconds: float) -> dict[str, Any]:
    return {
        "name": name,
        "ph": "X",
        "pid": process,
        "tid": row,
        "ts": round(begin * 1e6, 1),
        "dur": round(seconds * 1e6, 1),
    }


def _meta(name: str, process: int, row: int, text: str) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": process, "tid": row, "args": {"name": text}}
