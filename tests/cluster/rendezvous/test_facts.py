from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from tfdp.cluster.rendezvous import start_timeout, version_facts
from tfdp.errors import ClusterError


def test_versions() -> None:
    facts = version_facts()
    assert facts["tensorflow"] == importlib.metadata.version("tensorflow")
    assert facts["keras"] == importlib.metadata.version("keras")
    assert facts["python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert set(facts) == {"python", "tfdp", "tensorflow", "keras"}


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [({}, 15.0), ({"TFDP_START_TIMEOUT": " "}, 15.0), ({"TFDP_START_TIMEOUT": "2.5"}, 2.5)],
)
def test_start_timeout(environ: dict[str, str], seconds: float) -> None:
    assert start_timeout(environ) == seconds


@pytest.mark.parametrize("text", ["soon", "0", "-1", "inf", "nan"])
def test_start_timeout_that_is_none(text: str) -> None:
    with pytest.raises(ClusterError, match="TFDP_START_TIMEOUT must be a number of seconds"):
        start_timeout({"TFDP_START_TIMEOUT": text})


@pytest.mark.multi_process
def test_loads_no_tensorflow(repository: Path) -> None:
    code = "import sys, tfdp.cluster.rendezvous as r; r.version_facts(); assert 'tensorflow' not in sys.modules"  # noqa: E501
    subprocess.run([sys.executable, "-c", code], cwd=repository, timeout=60, check=True)
