"""An sbatch file: one task is one worker, and each start is one ``srun`` step."""

from __future__ import annotations

import math
import shlex

from tfdp.cluster.rendezvous import START_TIMEOUT_VARIABLE
from tfdp.errors import PreemptedError
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
        "open-mode=append",  # the log of a job that comes back from the queue goes on
        # So long before the time limit the workers are told to save and leave.
        f"signal=TERM@{math.ceil(job.grace_seconds)}",
        "requeue",
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
    resume = ""
    if job.resume:
        resume = ' "${resume[@]}"'
        lines += [
            "  resume=()",
            '  if (( attempt > 0 || "${SLURM_RESTART_COUNT:-0}" > 0 )); then',
            f"    resume=({shlex.join(job.resume)})",
            "  fi",
        ]
    return [
        *lines,
        # Another step has another number, from which the workers take other ports.
        '  srun --kill-on-bad-exit=1 --label --distribution=block "${command[@]}"'
        f"{resume} && exit 0",
        "  status=$?",
        # The workers were told to end, and have saved. A job that is cancelled does not come here:
        # Slurm then ends this script too.
        f'  if [ "$status" -eq {PreemptedError.exit_code} ]; then',
        '    scontrol requeue "$SLURM_JOB_ID"',
        "    break",
        "  fi",
        "done",
        'exit "$status"',
    ]
