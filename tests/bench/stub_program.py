"""A contestant without TensorFlow: its times follow from its job."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from tfdp.bench.peers.turns import Turn, serve


def prepare(job: dict[str, Any]) -> Turn:
    if job.get("fails") == "prepare":
        raise ValueError("no such model")

    def take(count: int = 1, what: str = "", size: int = 0) -> list[float]:
        if job.get("fails") == "turn":
            os._exit(7)
        return [job["seconds"] * (1 + job["rank"]) for _ in range(count)]

    return take


if __name__ == "__main__":
    print("the stub's own words", flush=True)
    made = json.loads(sys.argv[1])
    sys.exit(serve(sys.argv[2], made["rank"], lambda: prepare(made)))
