"""What `tfdp bench scaling` prints, writes and draws."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.table import Table

from tfdp.bench.plotting import new_figure, save
from tfdp.bench.report import machine
from tfdp.bench.scaling import Point, ScalingOptions, efficiencies
from tfdp.cluster.runtime import usable_cores

FORMAT_VERSION: Final = 1


class ScalingReport:
    """All points of one run.

    Args:
      options: what was asked for.
      points: what was found.
    """

    def __init__(self, options: ScalingOptions, points: Sequence[Point]) -> None:
        self._options = options
        self._points = list(points)
        self._efficiencies = efficiencies(points)

    def table(self) -> Table:
        """For a terminal; quartiles in parentheses."""
        unit = "workers" if self._options.processes else "devices of one process"
        table = Table(title=f"{self._options.model} on {unit}, median (quartiles)")
        headings = ("kind", "replicas", "batch", "samples/s", "efficiency", "input ms")
        for heading in (*headings, "compute ms", "commun. ms"):
            table.add_column(heading, justify="left" if heading == "kind" else "right")
        for point, efficiency in zip(self._points, self._efficiencies, strict=True):
            table.add_row(
                point.kind,
                str(point.replicas),
                str(point.global_batch),
                point.samples_per_second.text(0),
                efficiency.text(2),
                f"{point.input.median * 1e3:.1f}",
                f"{point.compute.median * 1e3:.1f}",
                point.communication.text(1, 1e3) if point.replicas > 1 else "",
            )
        return table

    def lines(self) -> list[str]:
        """What the numbers mean, and what this machine cannot show."""
        lines = [
            "A step is not the sum of its parts where they overlap: input is drawn ahead. "
            "Communication is what a step takes longer than one whose gradients are not summed."
        ]
        cores = usable_cores()
        confined = self._options.cores
        most = max(self._options.counts)
        if confined is None and most > 1:
            lines.append(
                f"All replicas share {cores} cores, which one replica can use alone: n replicas "
                "can at best keep its samples/s, an efficiency of 1/n. That says what "
                "distribution costs, not how it scales; workers on cores of their own "
                "(--cores-per-worker) do."
            )
        elif confined is not None:
            lines.append(
                f"Each worker has {confined} of {cores} cores to itself; they still share the "
                "memory, the caches and their bandwidth."
            )
        return lines

    def to_json(self) -> str:
        """Everything, with the seconds of every round."""
        points = [
            {
                "kind": point.kind,
                "replicas": point.replicas,
                "global_batch": point.global_batch,
                "samples_per_second": point.samples_per_second.to_json(),
                "efficiency": efficiency.to_json(),
                "input_seconds": point.input.to_json(),
                "compute_seconds": point.compute.to_json(),
                "communication_seconds": point.communication.to_json(),
                "step_seconds": point.seconds["steps"],
            }
            for point, efficiency in zip(self._points, self._efficiencies, strict=True)
        ]
        return json.dumps(
            {
                "version": FORMAT_VERSION,
                "machine": machine(),
                "options": asdict(self._options),
                "points": points,
                "notes": self.lines(),
            },
            indent=2,
        )

    def plot(self, path: Path) -> None:
        """Samples a second and the parts of a step, by the number of replicas.

        Raises:
          RunError: matplotlib is missing, or the file cannot be written.
        """
        figure, ((left, right),) = new_figure(2)
        for kind in self._options.kinds:
            own = [point for point in self._points if point.kind == kind]
            counts = [point.replicas for point in own]
            speeds = [point.samples_per_second for point in own]
            left.plot(counts, [each.median for each in speeds], marker="o", label=kind)
            left.fill_between(
                counts,
                [each.to_json()["quartiles"][0] for each in speeds],
                [each.to_json()["quartiles"][1] for each in speeds],
                alpha=0.2,
            )
        left.set(xlabel="replicas", ylabel="samples/s", ylim=(0, None))
        left.set_xticks(list(self._options.counts))
        left.legend()
        bottoms = [0.0] * len(self._points)
        labels = [f"{point.kind}\n{point.replicas}" for point in self._points]
        for part in ("input", "compute", "communication"):
            heights = [max(0.0, getattr(point, part).median * 1e3) for point in self._points]
            right.bar(labels, heights, bottom=bottoms, label=part)
            bottoms = [a + b for a, b in zip(bottoms, heights, strict=True)]
        right.set(ylabel="ms of a step")
        right.legend()
        figure.suptitle(f"tfdp bench scaling: {self._options.model}")
        save(figure, path)
