"""``tfdp launch``"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tfdp.cli.common import add_resume_argument, add_set_argument
from tfdp.cli.help_text import paragraph, runtime_help
from tfdp.cli.numbers import count, count_or_zero, seconds, seconds_or_never
from tfdp.launcher.command import LaunchOptions, emit, launch
from tfdp.launcher.group import FAILURE_GRACE_SECONDS, PREEMPTED, STALLED
from tfdp.launcher.stalls import DEFAULT_STALL_SECONDS, PATIENCE
from tfdp.launcher.supervisor import DEFAULT_GRACE_SECONDS

_SUFFIXES = (".yaml", ".yml")

_EXIT_CODES = f"""

exit codes:
  0      all workers have ended well
  {PREEMPTED}     they were told to end (by a signal to this command or to a worker), have saved and
         left: start the same command again with --resume. No failure, so there is no restart
  {STALLED}     a worker was stopped, or the group did not go on (--stall-timeout)
  128+N  ended by signal N, and not saved
  else   the worst exit code of the workers
"""


def add_parser(commands: Any) -> None:
    """Adds the command to the subparsers of ``tfdp``."""
    parser = commands.add_parser(
        "launch",
        help="start several workers, watch them, and end them together",
        usage="tfdp launch --workers N [options] CONFIG\n"
        "       tfdp launch --workers N [options] -- PROGRAM [ARGUMENT ...]",
        description=paragraph(
            "Start N workers on this machine, each with its TF_CONFIG, share of the threads and "
            "GPUs; run `tfdp train CONFIG` or PROGRAM in each of them. When one fails or does not "
            "go on, all are ended, the first failure is reported, and the group may start again "
            "from its last checkpoint. SIGTERM or Ctrl-C let the workers save first; a second "
            "Ctrl-C ends them at once."
        )
        + _EXIT_CODES,
        epilog=runtime_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "target", metavar="CONFIG or PROGRAM", nargs="+", help="what every worker runs"
    )
    _add_group(parser)
    _add_running(parser)
    _add_train(parser)
    _add_emit(parser)
    parser.set_defaults(run=run)


def _add_group(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the group")
    group.add_argument("--workers", metavar="N", type=count, help="how many workers")
    group.add_argument(
        "--devices-per-worker",
        metavar="D",
        type=count,
        help="replicas in each worker: GPUs, or logical CPU devices where there is no GPU "
        "(default: its share of the GPUs, or one CPU device)",
    )
    group.add_argument(
        "--hosts",
        metavar="FILE",
        type=Path,
        help="the workers of several machines, one host, host:port or host slots=N a line; run the "
        "same command on each machine, it starts the workers that the file places there",
    )
    group.add_argument(
        "--host",
        metavar="NAME",
        help="how the hosts file calls this machine (default: by any of its names and addresses)",
    )
    group.add_argument(
        "--mpi",
        action="store_true",
        help="make each worker a rank of MPI too, which cross_device_ops mpi needs: mpiexec is "
        "started beside them, and the ranks are TF_CONFIG's indexes (a CONFIG that reduces by MPI "
        "asks for it by itself)",
    )
    group.add_argument(
        "--start-timeout",
        metavar="S",
        type=seconds,
        help="seconds that the workers wait for each other (default 15)",
    )


def _add_running(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("running")
    group.add_argument(
        "--max-restarts",
        metavar="R",
        type=count_or_zero,
        default=0,
        help="start the group again up to R times after a failure (default 0)",
    )
    group.add_argument(
        "--min-workers",
        metavar="M",
        type=count,
        help="go on with fewer workers, but M at least: a restart leaves out a worker that was the "
        "first to fail in two starts one after the other, and with --hosts one that does not come "
        "to a restart. The others get the whole global batch, so the result stays the same; the "
        "first of them becomes the chief. It counts as any restart, and nobody who was left out "
        "comes back. With --hosts give the same M on each machine, and more than half of the "
        "workers: else two halves of a cut network both go on (default: all workers)",
    )
    group.add_argument(
        "--stall-timeout",
        metavar="S",
        type=seconds_or_never,
        default=DEFAULT_STALL_SECONDS,
        help="end the group when a worker's process is stopped, or no worker has gone on, for S "
        f"seconds; {PATIENCE} S where it still works (processor, files), or may wait for another "
        "machine. A program that trains without tfdp is only looked at for stopped processes. "
        f"0: never (default {DEFAULT_STALL_SECONDS:g})",
    )
    group.add_argument(
        "--grace",
        metavar="S",
        type=seconds,
        default=DEFAULT_GRACE_SECONDS,
        help="seconds that the workers have to save and leave when they are told to end, before "
        f"they are killed (default {DEFAULT_GRACE_SECONDS:g}); after a failure, when there is "
        f"nothing to save, at most {FAILURE_GRACE_SECONDS:g}",
    )
    group.add_argument(
        "--log-dir",
        metavar="DIR",
        type=Path,
        help="where each worker's output is stored (default: a new temporary directory)",
    )
    group.add_argument(
        "--verbose", action="store_true", help="show the output of all workers, not of the first"
    )


def _add_train(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("with CONFIG, as in tfdp train")
    add_set_argument(
        group,
        "change a key of CONFIG; may be repeated",
    )
    group.add_argument("--run-dir", metavar="DIR", help="where to write results")
    add_resume_argument(group)
    group.add_argument(
        "--data-workers",
        metavar="N",
        type=count,
        help="start a tf.data service with N workers on this machine beside the group, which "
        "reads, decodes and transforms the training examples (data.service; tfdp data serve)",
    )


def _add_emit(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("for a scheduler, instead of starting anything")
    group.add_argument(
        "--emit",
        choices=("slurm", "kubernetes"),
        help="write an sbatch file, or a TFJob for Kubeflow's training operator; "
        "--devices-per-worker then asks for GPUs. A job that is pre-empted, or reaches its time "
        "limit, saves within --grace seconds and goes on from there: Slurm puts it back into the "
        "queue; Kubernetes starts its pods again, --max-restarts times",
    )
    group.add_argument(
        "--output", metavar="FILE", type=Path, help="where to write it (default: standard output)"
    )
    group.add_argument("--name", default="tfdp", help="of the job (default tfdp)")
    group.add_argument("--image", help="the container image, for kubernetes")


def run(options: argparse.Namespace) -> int:
    """Starts the workers or writes the file; returns the exit code.

    Raises:
      TfdpError: whatever is wrong with the arguments, the config or this machine.
    """
    config = options.target[0] if _is_config(options.target) else None
    wanted = LaunchOptions(
        config=config,
        program=() if config is not None else tuple(options.target),
        overrides=tuple(options.overrides),
        run_directory=options.run_dir,
        resume=options.resume,
        workers=options.workers,
        devices_per_worker=options.devices_per_worker,
        hosts=options.hosts,
        host=options.host,
        start_timeout_seconds=options.start_timeout,
        max_restarts=options.max_restarts,
        min_workers=options.min_workers,
        stall_timeout_seconds=options.stall_timeout,
        grace_seconds=options.grace,
        log_directory=options.log_dir,
        verbose=options.verbose,
        mpi=options.mpi,
        data_workers=options.data_workers,
    )
    if options.emit is not None:
        return emit(wanted, options.emit, options.output, options.name, options.image)
    return launch(wanted, sys.stdout)


def _is_config(target: list[str]) -> bool:
    return len(target) == 1 and target[0].endswith(_SUFFIXES)
