"""MPI, which is optional."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tfdp.cluster.doctor.base import Finding, Patient, passed, warned


def check_mpi(patient: Patient) -> Iterator[Finding]:
    """Whether ``mpiexec`` and mpi4py are there."""
    # Wheels put it beside the interpreter, which need not be on PATH.
    folders = [patient.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)]
    program = shutil.which("mpiexec", path=os.pathsep.join(folders))
    try:
        package = importlib.metadata.version("mpi4py")
    except importlib.metadata.PackageNotFoundError:
        package = None
    if program is not None and package is not None:
        yield passed("mpi", f"{program}, mpi4py {package}")
        return
    missing = [name for name, found in (("mpiexec", program), ("mpi4py", package)) if found is None]
    yield warned(
        "mpi",
        f"no {' and no '.join(missing)}; needed only to start workers by MPI or to reduce with it",
        "pip install mpi4py mpich",
    )
