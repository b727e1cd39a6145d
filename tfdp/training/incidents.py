"""``incidents.jsonl``: what went wrong in a run and what was done about it, one JSON object a line.

===========  ==================================================================================
key          value
===========  ==================================================================================
``time``     seconds since 1970-01-01 UTC
``kind``     one of those below
``epoch``    number of the epoch, from 1; null where none had begun
``step``     number of the step, from 1, over all epochs; null where none had begun
``worker``   the worker that it concerns; null where it is not one alone
``details``  an object; what is in it depends on the kind
===========  ==================================================================================

======================  =======================================================================
kind                    what happened
======================  =======================================================================
``not_finite``          the loss, a gradient or a weight is NaN or infinite
``drift``               the replicas' copies of a variable are not equal
``rollback``            the run went back to its last good checkpoint
``skipped_batch``       a batch was left out
``rate_lowered``        the learning rate was lowered
``damaged_checkpoint``  a checkpoint could not be read and was passed over
``resumed``             another process goes on with the run
``preempted``           a signal ended the run, after it had saved
``stopped``             the run ended before its last step
======================  =======================================================================

Lines are only added: a run that is resumed goes on with the file. One process writes it, worker 0.
This module does not load TensorFlow.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from tfdp.training.jsonl import append_record, read_lines

Kind = Literal[
    "not_finite",
    "drift",
    "rollback",
    "skipped_batch",
    "rate_lowered",
    "damaged_checkpoint",
    "resumed",
    "preempted",
    "stopped",
]
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True)
class Incident:
    """One line of the file; see the head of this module."""

    time: float
    kind: str
    epoch: int | None
    step: int | None
    worker: int | None
    details: Mapping[str, Any]


class IncidentLog:
    """Appends to the file; a line is there completely or not at all.

    Args:
      path: the file; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(
        self,
        kind: Kind,
        *,
        epoch: int | None = None,
        step: int | None = None,
        worker: int | None = None,
        **details: Any,
    ) -> None:
        """Writes one line.

        Args:
          kind: one of `KINDS`.
          epoch: number of the epoch, from 1.
          step: number of the step, from 1, over all epochs.
          worker: whom it concerns.
          details: whatever JSON can hold.

        Raises:
          ValueError: the kind is not known.
          RunError: the disk is full or fails; the lines before it stay.
        """
        if kind not in KINDS:
            raise ValueError(f"kind={kind!r} is not known. Known: {', '.join(KINDS)}.")
        record = {
            "time": time.time(),
            "kind": kind,
            "epoch": epoch,
            "step": step,
            "worker": worker,
            "details": details,
        }
        append_record(self._path, record)


def read_incidents(path: Path) -> list[Incident]:
    """The incidents of a run, oldest first; a last line that is cut short is left out."""
    return [Incident(**record) for _, record in read_lines(path)]
