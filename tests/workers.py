"""Runs a test program as every worker of a group, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from tests.parity.groups import REPOSITORY, free_ports


def run_workers(
    module: str,
    *arguments: str,
    count: int = 2,
    deadline_seconds: float,
    start_timeout_seconds: int = 60,
) -> list[dict[str, Any]]:
    """The JSON that each worker printed last.

    Args:
        module: of the program.
        arguments: of the program.
        count: of the workers.
        deadline_seconds: for all of it; then every process is killed.
        start_timeout_seconds: how long the workers wait for each other.

    Raises:
        AssertionError: a worker failed; with the end of what it said.
    """
    addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
    processes = []
    for index in range(count):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        environ = {
            **os.environ,
            "TF_CONFIG": json.dumps(config),
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "TFDP_START_TIMEOUT": str(start_timeout_seconds),
        }
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=REPOSITORY,
                env=environ,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
    end = time.monotonic() + deadline_seconds
    try:
        outputs = [p.communicate(timeout=max(1, end - time.monotonic())) for p in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, errors[-3000:]
    return [json.loads(output.splitlines()[-1]) for output, _ in outputs]
