"""`tfdp.launch`: runs a function in several workers, from Python or a notebook."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tfdp.errors import PreemptedError, StalledError, StrategyError, WorkerError
from tfdp.launcher.environment import GroupShape
from tfdp.launcher.functions import describe_function
from tfdp.launcher.group import Failure, GroupResult
from tfdp.launcher.stalls import DEFAULT_STALL_SECONDS
from tfdp.launcher.supervisor import LaunchPlan, supervise
from tfdp.launcher.values import load_value, save_value

_PACKAGES = str(Path(__file__).resolve().parents[2])

# The worker finds tfdp where this process has found it, installed or not.
_BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from tfdp.launcher.child import main; sys.exit(main(sys.argv[2:]))"
)


def launch(
    fn: Callable[..., Any] | str,
    workers: int = 2,
    devices_per_worker: int = 1,
    args: Sequence[Any] = (),
    timeout: float | None = None,
    *,
    start_timeout: float | None = None,
    stall_timeout_seconds: float | None = DEFAULT_STALL_SECONDS,
    mpi: bool = False,
    verbose: bool = False,
) -> list[Any]:
    """Runs a function in several new processes, and returns what it returned in each.

    In each of them `tfdp.strategy("multi_worker")` gives a strategy over all. The output of the
    first worker is shown. When one fails, all are ended; none is left when this returns or raises.

    >>> def train():                                          # doctest: +SKIP
    ...     import tfdp
    ...     strategy = tfdp.strategy("multi_worker")
    ...     return strategy.num_replicas_in_sync
    >>> tfdp.launch(train, workers=2)                         # doctest: +SKIP
    [2, 2]

    Args:
      fn: a function, or ``"module:function"``. One that is defined in a notebook cell, at the
        prompt or inside another function has to import what it uses in its own body.
      workers: how many processes.
      devices_per_worker: replicas in each: GPUs, or logical CPU devices where there is no GPU.
      args: its arguments: None, bool, int, float, str, NumPy arrays, and lists, tuples and dicts
        of these.
      timeout: seconds for everything; None for no limit.
      start_timeout: seconds that the workers wait for each other; None for the default, 15.
      stall_timeout_seconds: how long a worker's process may be stopped, or no worker go on with
        its training; ten times as long where it still works. None: for ever.
      mpi: whether each worker is also a rank of MPI, as the reducer "mpi" needs it; mpiexec has to
        be there.
      verbose: show the output of all workers.

    Returns:
      What each worker returned, in their order; of the types that `args` may have.

    Raises:
      DataError: the function or its arguments cannot go to another process.
      StrategyError: `workers` or `devices_per_worker` is below 1, or there are too few GPUs; or
        no mpiexec for `mpi`.
      WorkerError: the function raised, with the traceback of the first worker that failed; a worker
        died; or the time was up.
      StalledError: a worker was stopped, or did not go on; with its Python stack if it has one.
      PreemptedError: the workers were told to end by a signal other than Ctrl-C, and have saved.
      KeyboardInterrupt: after all workers have ended.
    """
    for name, count in (("workers", workers), ("devices_per_worker", devices_per_worker)):
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise StrategyError(f"{name} must be an integer of at least 1, got {count!r}")
    job = {"function": describe_function(fn), "path": [os.path.abspath(p) for p in sys.path]}
    with tempfile.TemporaryDirectory(prefix="tfdp-launch-") as name:
        folder = Path(name)
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        save_value(tuple(args), folder / "arguments", what="args")
        plan = LaunchPlan(
            shape=GroupShape(workers, devices_per_worker, start_timeout),
            command=lambda _: [sys.executable, "-c", _BOOTSTRAP, _PACKAGES, name],
            log_directory=folder,
            verbose=verbose,
            mpi=mpi,
            timeout_seconds=timeout,
            stall_timeout_seconds=stall_timeout_seconds,
        )
        result = supervise(plan, os.environ, sys.stdout)
        _raise_failure(result, folder, timeout)
        return [_result(folder, index) for index in range(workers)]


def _raise_failure(result: GroupResult, folder: Path, timeout: float | None) -> None:
    if result.preempted and result.interrupt is not signal.SIGINT:
        raise PreemptedError("the workers were told to end, have saved and left")
    if result.interrupt is not None:
        raise KeyboardInterrupt
    if result.unfinished:
        listed = ", ".join(str(index) for index in result.unfinished)
        raise WorkerError(
            f"the time is up: after {timeout:g} s the function still ran in "
            f"worker{'' if len(result.unfinished) == 1 else 's'} {listed}",
            hint="Allow more time, or none at all: timeout=None.",
        )
    if result.failure is not None:
        raise _worker_error(result.failure, folder)


def _worker_error(failure: Failure, folder: Path) -> WorkerError:
    """The worker's own account of its failure, or what is known about a worker that just died."""
    index = failure.exit.index
    if failure.stall is not None:
        text = "\n".join(failure.lines)
        return StalledError(
            f"worker {index} stalled: {failure.stall}\n{text}", worker=index, traceback_text=text
        )
    path = folder / f"failure-{index}.json"
    if path.exists():
        told = json.loads(path.read_text(encoding="utf-8"))
        return WorkerError(
            f"worker {index} raised {told['type']}: {told['message']}\n\n{told['traceback']}",
            worker=index,
            traceback_text=told["traceback"],
        )
    text = "\n".join(failure.lines)
    return WorkerError(
        f"worker {index} died with {failure.exit.describe()}; the end of its output:\n{text}",
        worker=index,
        traceback_text=text,
    )


def _result(folder: Path, index: int) -> Any:
    try:
        return load_value(folder / f"result-{index}")
    except FileNotFoundError:
        raise WorkerError(
            f"worker {index} has left without a result: the function ended its process",
            worker=index,
        ) from None
