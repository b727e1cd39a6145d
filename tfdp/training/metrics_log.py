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

import json
import math
from collections.abc import Mapping
from io import RawIOBase
from pathlib import Path
from typing import Any

from tfdp.training.files import disk_errors, write_text


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
        line = (json.dumps(_finite(record), allow_nan=False) + "\n").encode("utf-8")
        # Unbuffered, or the rest of a line that failed would be written when the file is closed.
        with disk_errors(self._path), self._path.open("ab", buffering=0) as file:
            end = file.tell()
            try:
                _write_all(file, line)
            except OSError:
                file.truncate(end)
                raise

    def rewind(self, epochs: int) -> None:
        """Drops what was written after `epochs` epochs, and a last line that is cut short."""
        kept = [
            line
            for line, record in _read(self._path)
            if record["epoch"] <= epochs
        ]  # fmt: skip
        write_text(self._path, "".join(f"{line}\n" for line in kept))


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records in a ``metrics.jsonl``; a last line that is cut short is left out."""
    return [record for _, record in _read(path)]


def _write_all(file: RawIOBase, content: bytes) -> None:
    """A nearly full disk takes a part of `content`, and says why only when asked for the rest."""
    while content:
        content = content[file.write(content) :]


def _read(path: Path) -> list[tuple[str, dict[str, Any]]]:
    if not path.is_file():
        return []
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append((line, json.loads(line)))
        except json.JSONDecodeError:
            break
    return records


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
