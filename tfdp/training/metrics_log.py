"""``metrics.jsonl``: one JSON object a line, during and after each epoch.

======================  ==========================================================================
key                     value
======================  ==========================================================================
``kind``                ``"step"``, while an epoch runs, or ``"epoch"``, after its validation
``epoch``               number of the epoch, from 1
``step``                steps finished since the run began, over all epochs
``loss``                mean loss of the epoch so far
``metrics``             the other metrics by name, ``val_...`` among them after an epoch
``images_per_second``   examples trained on in a second by all replicas, since the last line of this
                        kind; null where there was nothing to measure
``replicas``            replicas, over all workers
``time``                seconds since 1970-01-01 UTC
======================  ==========================================================================

A number that is not finite is null: JSON has no NaN. This module does not load TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfdp.training.files import write_text
from tfdp.training.jsonl import append_record, read_lines


class MetricsLog:
    """Appends to the file; a line is there completely or not at all.

    Args:
      path: the file; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, record: Mapping[str, Any]) -> None:
        """Writes one line.

        Raises:
          RunError: the disk is full or fails; the lines before it stay.
        """
        append_record(self._path, record)

    def rewind(self, epochs: int, total_steps: int) -> None:
        """Drops what was written later, and a last line that is cut short.

        Args:
          epochs: finished epochs whose lines stay.
          total_steps: finished steps whose lines stay.
        """
        kept = [
            line
            for line, record in read_lines(self._path)
            if record["step"] <= total_steps
            and (record["kind"] != "epoch" or record["epoch"] <= epochs)
        ]
        write_text(self._path, "".join(f"{line}\n" for line in kept))


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records in a ``metrics.jsonl``; a last line that is cut short is left out."""
    return [record for _, record in read_lines(path)]
