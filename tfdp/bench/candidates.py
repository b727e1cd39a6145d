"""Which reducers can be measured here, and why the others cannot."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tfdp.collectives import Topology, names
from tfdp.collectives.compression import NONE, check_compression
from tfdp.collectives.registry import AUTO, get
from tfdp.errors import StrategyError


@dataclass(frozen=True)
class Candidate:
    """A reducer, with or without compression."""

    reducer: str
    compression: str = NONE

    @classmethod
    def parse(cls, text: str) -> Candidate:
        """From "mpi" or "mpi+bf16"."""
        reducer, plus, compression = text.partition("+")
        return cls(reducer, compression if plus else NONE)

    def __str__(self) -> str:
        return self.reducer if self.compression == NONE else f"{self.reducer}+{self.compression}"


def choose(
    wanted: Sequence[str] | None, topology: Topology
) -> tuple[list[Candidate], dict[str, str]]:
    """What to measure, and the others with the reason.

    Args:
      wanted: as `Candidate.parse` takes them; None: all reducers there are, uncompressed.
      topology: where they are to reduce.

    Raises:
      StrategyError: a wanted one is unknown, or cannot serve the topology; or none can.
    """
    if wanted is not None:
        chosen = [Candidate.parse(text) for text in dict.fromkeys(wanted)]
        for each in chosen:
            _check(each, topology)
        return chosen, {}
    chosen, refused = [], {}
    for name in names():
        if name == AUTO:
            continue
        reason = _refusal(name, topology)
        if reason is None:
            chosen.append(Candidate(name))
        else:
            refused[name] = reason
    if not chosen:
        raise StrategyError(f"no reducer can be measured on {topology.describe()}.")
    return chosen, refused


def mpiexec() -> str | None:
    """Path of mpiexec; the wheels put it beside the interpreter, which need not be on PATH."""
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return shutil.which("mpiexec", path=os.pathsep.join(folders))


def _check(candidate: Candidate, topology: Topology) -> None:
    if candidate.reducer == AUTO:
        raise StrategyError(
            '"auto" chooses a reducer and is none itself.',
            hint=f"Name some of {', '.join(names()[1:])}, or leave --reducers out.",
        )
    reducer = get(candidate.reducer)
    reason = _refusal(candidate.reducer, topology)
    if reason is not None:
        raise StrategyError(f"{candidate} cannot serve {topology.describe()}: {reason}.")
    check_compression(candidate.compression, reducer, topology)


def _refusal(name: str, topology: Topology) -> str | None:
    if name != "mpi" or topology.workers == 1:
        return get(name).refusal(topology)
    # This process is no rank, so the reducer itself would refuse.
    found = {"mpi4py": importlib.util.find_spec("mpi4py"), "mpiexec": mpiexec()}
    missing = [part for part, place in found.items() if place is None]
    return f'no {" and no ".join(missing)}: pip install "tfdp[mpi]"' if missing else None
