"""One rank that adds up in shared memory: `python -m tests.collectives.memory_program TASK FOLDER`.

Without TensorFlow, so that three ranks take two seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tfdp.collectives.shared_memory import PIECE_BYTES, SMALL_BYTES, SharedMemory
from tfdp.launcher.values import save_value

DTYPES = ("int8", "int64", "float16", "bfloat16", "float32", "float64")
BYTES = (1, SMALL_BYTES, SMALL_BYTES + 8, PIECE_BYTES, PIECE_BYTES + 8, 5 * PIECE_BYTES + 1000)
MEMBERS = (7, 300_001, 1, 250_000, 12)


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def integers(name: str, size: int, rank: int) -> np.ndarray:
    """Whole numbers whose sums over three ranks are exact in every dtype."""
    return np.random.default_rng([size, rank]).integers(-9, 9, size).astype(dtype_of(name))


def normal(name: str, rank: int) -> np.ndarray:
    return np.random.default_rng([77, rank]).normal(size=300_000).astype(dtype_of(name))


def sizes(name: str) -> list[int]:
    return [max(1, each // dtype_of(name).itemsize) for each in BYTES]


def sums(memory: SharedMemory, rank: int) -> dict[str, Any]:
    def summed(*vectors: np.ndarray) -> list[np.ndarray]:
        totals = [np.full_like(vector, 99) for vector in vectors]
        assert memory.sum(vectors, totals, "the same") is None
        return totals

    told: dict[str, Any] = {}
    for name in DTYPES:
        exact = [summed(integers(name, size, rank))[0] for size in sizes(name)]
        told[f"exact {name}"] = [each.astype(np.float64) for each in exact]
    for name in DTYPES[2:]:
        told[f"normal {name}"] = summed(normal(name, rank))[0].astype(np.float64)
    told["members"] = summed(*[integers("float32", size, rank) for size in MEMBERS])
    told["agree"] = memory.agree("a gather")
    told["differ"] = memory.agree(f"the gather of rank {rank}")
    mine = integers("float32", 600_000 if rank else 3, rank)
    told["other sums"] = memory.sum([mine], [np.zeros_like(mine)], f"{mine.size} numbers")
    told["after"] = summed(integers("float32", 700_000, rank))[0]
    return told


def many(memory: SharedMemory, rank: int) -> dict[str, Any]:
    """Sums of all sizes one after the other, where ranks are late by turns."""
    wrong = 0
    rng = np.random.default_rng(8)
    for number in range(1500):
        size = int(rng.choice([1, 100, 9_000, 300_000, 600_000], p=[0.4, 0.3, 0.2, 0.05, 0.05]))
        if number % 3 == rank:
            np.sort(np.random.default_rng(number).normal(size=1_000))
        total = np.empty(size, np.float32)
        memory.sum([np.full(size, number + rank, np.float32)], [total], "the same")
        wrong += int((total != 3 * number + 3).sum())
    return {"wrong": wrong}


if __name__ == "__main__":
    from mpi4py import MPI  # not above: the tests import this module without MPI, too

    own_rank = MPI.COMM_WORLD.Get_rank()
    found = globals()[sys.argv[1]](SharedMemory(MPI.COMM_WORLD, MPI), own_rank)
    save_value(found, Path(sys.argv[2]) / str(own_rank), what="the result")
