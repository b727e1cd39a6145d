"""Two processes do not write to one run directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tfdp.errors import RunError
from tfdp.training.lock import given_back, take_directory

DEADLINE_SECONDS = 30

HOLD = """
import sys
from pathlib import Path
from tfdp.training.lock import take_directory
take_directory(Path(sys.argv[1]))
print("taken", flush=True)
sys.stdin.read()
"""


@pytest.mark.multi_process
def test_a_directory_is_one_processes_until_it_ends(tmp_path: Path) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "taken\n"
        with pytest.raises(RunError, match=rf"another process trains in .*process {other.pid} on"):
            take_directory(tmp_path)
        other.kill()
        other.wait(DEADLINE_SECONDS)
        with given_back(tmp_path):
            take_directory(tmp_path)
            take_directory(tmp_path)
            assert (tmp_path / ".lock").read_text().startswith(f"process {os.getpid()} on")
    finally:
        other.kill()
        other.communicate(timeout=DEADLINE_SECONDS)


def test_a_directory_that_is_gone_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be written: No such file"):
        take_directory(tmp_path / "gone")
