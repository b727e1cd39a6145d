"""``tfdp verify``: the comparison on the model and data of a config."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tfdp.config import Config
from tfdp.parity.verify import DEFAULT_STEPS, run_children

EPOCHS = 2
TIMEOUT_SECONDS = 3600.0


def run(config: Config, replicas: tuple[int, ...]) -> int:
    """Compares and prints a table.

    Two epochs of a few steps, and of the last batch with its own number of rows; in float64
    unless the config asks for mixed precision.

    Args:
      config: see `tfdp.config`. Its strategy and output are not used.
      replicas: the numbers of replicas to compare with one device.

    Returns:
      0 if all that can be equal is equal.

    Raises:
      ParityError: something differs; the table has been printed.
      TfdpError: whatever is wrong with the model, the data or the devices.
    """
    from rich.console import Console

    with tempfile.TemporaryDirectory(prefix="tfdp-verify-") as name:
        file = Path(name) / "config.yaml"
        file.write_text(config.to_yaml(), encoding="utf-8")
        exact = config.training.mixed_precision == "none"
        fields = {
            "config": str(file),
            "epochs": EPOCHS,
            "steps": min(config.training.steps_per_epoch or DEFAULT_STEPS, DEFAULT_STEPS),
            "seed": config.training.seed,
            "floatx": "float64" if exact else None,
        }
        report = run_children(fields, [], replicas, None, TIMEOUT_SECONDS)
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 120
    Console(width=width).print(report.table())
    report.raise_if_different()
    return 0
