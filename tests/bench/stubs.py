"""Programs of `tests.bench.stub_program`."""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.parity.groups import REPOSITORY
from tfdp.bench.peers.contestant import Program


def stub(name: str, ranks: int = 1, **job: Any) -> Program:
    """Ranks that each say they took ``seconds`` times their rank plus one."""
    start = "import sys; sys.path.insert(0, sys.argv.pop(1)); import runpy; "
    start += "runpy.run_module('tests.bench.stub_program', run_name='__main__', alter_sys=True)"
    commands = tuple(
        (
            sys.executable,
            "-c",
            start,
            str(REPOSITORY),
            json.dumps({**job, "rank": rank}),
            "{socket}",
        )
        for rank in range(ranks)
    )
    return Program(name, ranks, commands)
