"""An sbatch file: one task is one worker, and each start is one ``srun`` step."""

from __future__ import annotations

import math
import shlex

from tfdp.cluster.rendezvous import START_TIMEOUT_VARIABLE
from tfdp.launcher.emit.job import Job
from tfdp.launcher.environment import RESTARTS_VARIABLE

_START_TIMEOUT_SECONDS = 120.0
"""Tasks of one step start within seconds, but a shared file system may delay their imports."""


def slurm_script(job: Job) -> str:
    """The text of a file for ``sbatch``; every argument in it is quoted for the shell."""
    return "\n".join([*_header(job), "", *_body(job), ""])


def _header(job: Job) -> list[str]:
    options = [
        f"job-name={job.name}",
        f"ntasks={job.workers}",
        "distribution=block",
        f"output={job.name}-%j.log",
        # So long before the time limit the workers are told to save and leave.
        f"signal=TERM@{math.ceil(job.grace_seconds)}",
        "requeue" if job.max_restarts else "no-requeue",
    ]
    if job.gpus_per_worker is not None:
        options.append(f"gpus-per-task={job.gpus_per_worker}")
    return ["#!/bin/bash", *(f"#SBATCH --{option}" for option in options)]


def _body(job: Job) -> list[str]:
    timeout = job.start_timeout_seconds or _START_TIMEOUT_SECONDS
    lines = [
        "set -u",
        f"export {START_TIMEOUT_VARIABLE}={timeout:g}",
        f"command=({shlex.join(job.command)})",
        "status=0",
        f"for attempt in $(seq 0 {job.max_restarts}); do",
        f'  export {RESTARTS_VARIABLE}="$attempt"',
    ]
    if job.run_directory is not None:
        restarted = '(( attempt > 0 || "${SLURM_RESTART_COUNT:-0}" > 0 ))'
        lines += [
            "  resume=()",
            f"  if {restarted} && [ -d {shlex.quote(job.run_directory)} ]; then",
            "    resume=(--resume)",
            "  fi",
        ]
    resume = "" if job.run_directory is None else ' "${resume[@]}"'
    return [
        *lines,
        # Another step has another number, from which the workers take other ports.
        '  srun --kill-on-bad-exit=1 --label --distribution=block "${command[@]}"'
        f"{resume} && exit 0",
        "  status=$?",
        "done",
        'exit "$status"',
    ]
