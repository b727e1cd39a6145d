"""SIGTERM in a worker that has joined its cluster and does not train yet."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parity.groups import free_ports

DEADLINE_SECONDS = 60

PROGRAM = """
import os, signal, time, tfdp
tfdp.strategy("multi_worker")
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(5)
print("still here")
"""


@pytest.mark.multi_process
def test_a_worker_that_has_met_the_others_can_be_ended(repository: Path) -> None:
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(1)]}
    config = {"cluster": cluster, "task": {"type": "worker", "index": 0}}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=repository,
        env=os.environ | {"TF_CONFIG": json.dumps(config), "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == -signal.SIGTERM, done.stdout + done.stderr[-2000:]
