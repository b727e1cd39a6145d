"""Which workers of a group did not come, from a worker to the launcher that started it.

The launcher may go on without them. It finds the addresses beside the file of the worker's
heartbeat.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tfdp.cluster.heartbeat import HEARTBEAT_VARIABLE


@dataclass(frozen=True)
class Absence:
    """Addresses of workers that a group has to do without.

    Attributes:
      absent: those that did not come.
      excluded: those that are not in the list of every worker that came.
    """

    absent: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()


def tell_absent(absence: Absence, environ: Mapping[str, str] = os.environ) -> None:
    """Tells the launcher, if there is one."""
    path = environ.get(HEARTBEAT_VARIABLE, "")
    if path and (absence.absent or absence.excluded):
        text = json.dumps([sorted(absence.absent), sorted(absence.excluded)])
        with contextlib.suppress(OSError):  # the error that follows says it too
            partial = Path(f"{path}.partial")
            partial.write_text(text, encoding="utf-8")
            os.replace(partial, _place(Path(path)))


def read_absent(record: Path) -> Absence:
    """What a worker has told, given the file of its heartbeat."""
    try:
        absent, excluded = json.loads(_place(record).read_text(encoding="utf-8"))
        return Absence(frozenset(map(str, absent)), frozenset(map(str, excluded)))
    except (OSError, ValueError, TypeError):
        return Absence()


def _place(record: Path) -> Path:
    return record.with_name(f"{record.name}.absent")
