"""What importing the package must not do. Each runs in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DEADLINE_SECONDS = 60

CHECK = """
import os, sys, threading
before = dict(os.environ)
import {module}
heavy = [name for name in ("tensorflow", "keras", "numpy", "rich") if name in sys.modules]
assert not heavy, heavy
assert dict(os.environ) == before
assert threading.active_count() == 1
"""


@pytest.mark.multi_process
@pytest.mark.parametrize(
    "module",
    [
        "tfdp",
        "tfdp.errors",
        "tfdp.callbacks",
        "tfdp.training.incidents",
        "tfdp.config",
        "tfdp.config.functions",
        "tfdp.cluster",
        "tfdp.cluster.detect",
        "tfdp.cluster.rendezvous",
        "tfdp.launcher.api",
        "tfdp.launcher.supervisor",
        "tfdp.cli.main",
    ],
)
def test_import_loads_nothing_heavy_and_changes_nothing(module: str, repository: Path) -> None:
    code = CHECK.format(module=module)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=repository,
        timeout=DEADLINE_SECONDS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
