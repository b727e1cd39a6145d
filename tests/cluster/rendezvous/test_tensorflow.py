"""TensorFlow's server gets the very ports on which the workers have met."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tfdp.launcher.ports import free_ports

DEADLINE_SECONDS = 120

PROGRAM = """
import os
import tensorflow as tf
from tfdp.cluster import read_tf_config
from tfdp.cluster.rendezvous import meet, version_facts
meet(read_tf_config(os.environ), version_facts(), 60)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
total = tf.function(lambda: strategy.reduce("SUM", strategy.run(lambda: tf.constant(1.0)), None))()
print("total", float(total))
"""


@pytest.mark.multi_process
@pytest.mark.slow
def test_tensorflow_starts_after_the_meeting(repository: Path) -> None:
    workers = [f"localhost:{port}" for port in free_ports(2)]
    processes = []
    for index in range(2):
        task = {"type": "worker", "index": index}
        config = {"cluster": {"worker": workers}, "task": task}
        environ = os.environ | {"TF_CONFIG": json.dumps(config), "TF_CPP_MIN_LOG_LEVEL": "2"}
        command = [sys.executable, "-c", PROGRAM]
        processes.append(
            subprocess.Popen(
                command,
                cwd=repository,
                env=environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        for process in processes:
            shown, _ = process.communicate(timeout=DEADLINE_SECONDS)
            assert process.returncode == 0, shown
            assert "total 2.0" in shown
    finally:
        for process in processes:
            process.kill()
