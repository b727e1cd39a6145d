"""The import contract of pyproject.toml, deferred imports counted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DEADLINE_SECONDS = 120


@pytest.mark.multi_process
def test_a_package_imports_only_what_stands_below_it(repository: Path) -> None:
    lint = [sys.executable, "-c", "import importlinter.cli as c; c.lint_imports_command()"]
    done = subprocess.run(
        [*lint, "--no-cache", "--config", "pyproject.toml"],
        cwd=repository,
        timeout=DEADLINE_SECONDS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 kept, 0 broken" in done.stdout
