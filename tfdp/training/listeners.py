"""Who listens to a run: the metrics log."""

from __future__ import annotations

import time

from tfdp.training.metrics_log import MetricsLog
from tfdp.training.telemetry import Report

LOG_EVERY_STEPS = 50


class MetricsWriter:
    """Writes reports to a `MetricsLog`: one in `every_steps` steps, and every epoch."""

    def __init__(self, log: MetricsLog, *, every_steps: int = LOG_EVERY_STEPS) -> None:
        self._log = log
        self._every_steps = every_steps
        self._written = 0

    def step(self, report: Report) -> None:
        """Writes a line where `every_steps` steps have passed since the last one."""
        # Not a remainder: with several steps in a call, the multiple itself may never come up.
        if report.total_steps // self._every_steps > self._written // self._every_steps:
            self._write("step", report)
        self._written = report.total_steps

    def epoch(self, report: Report) -> None:
        """Writes a line."""
        self._write("epoch", report)

    def _write(self, kind: str, report: Report) -> None:
        self._log.append(
            {
                "kind": kind,
                "epoch": report.epoch,
                "step": report.total_steps,
                "loss": report.loss,
                "metrics": report.metrics,
                "images_per_second": report.images_per_second,
                "replicas": report.replicas,
                "time": time.time(),
            }
        )
