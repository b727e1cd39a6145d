"""Sums of workers on one machine, in memory that they share.

MPI sends between processes of a machine through small buffers, and copies twice. Here each worker
puts a piece of its vectors where all can read it, adds up its share of everybody's pieces into the
first worker's place, and takes the finished piece from there: one copy in, one copy out, and every
addition is done once. MPI provides the memory and the barriers.

While the last piece is taken out, the next but one is put in: three places for pieces and one
barrier a piece.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfdp.collectives.agreement import TOLD_BYTES, different, told

PIECE_BYTES = 1024 * 1024
"""Small enough that a piece is still in the processor's cache when it is added up."""
SMALL_BYTES = 32 * 1024
"""Up to here each worker adds up everything by itself: a barrier costs more."""

_PLACES = 3
_PAGE_BYTES = 4096
_BYTES = _PLACES * (PIECE_BYTES + _PAGE_BYTES)
_SPIN_SECONDS = 1e-3
_SLEEP_SECONDS = 50e-6
_WHERE = Path("/dev/shm")


def has_room(workers: int) -> bool:
    """Whether the system still has the memory that so many workers of a machine would share.

    Containers often have 64 MB of it. An MPI may promise more than there is, and the process that
    writes there is killed by SIGBUS.
    """
    if not _WHERE.is_dir():
        return False
    return shutil.disk_usage(_WHERE).free >= 2 * workers * _BYTES


class SharedMemory:
    """What the workers of one machine have in common. Not thread-safe.

    All workers call the same methods in the same order.

    Args:
        node: communicator of mpi4py whose processes all run on one machine.
        mpi: the module `mpi4py.MPI`.
    """

    def __init__(self, node: Any, mpi: Any) -> None:
        self._node = node
        self._rank = int(node.Get_rank())
        self._workers = int(node.Get_size())
        self._window = mpi.Win.Allocate_shared(_BYTES, 1, comm=node)
        self._window.Lock_all()
        memory = [
            np.frombuffer(self._window.Shared_query(rank)[0], np.uint8, _BYTES)
            for rank in range(self._workers)
        ]
        pieces = _PLACES * PIECE_BYTES
        self._pieces = [each[:pieces].reshape(_PLACES, PIECE_BYTES) for each in memory]
        self._told = [
            each[pieces:].reshape(_PLACES, _PAGE_BYTES)[:, :TOLD_BYTES] for each in memory
        ]
        self._place = 0

    def sum(
        self, vectors: Sequence[np.ndarray], totals: Sequence[np.ndarray], what: str
    ) -> list[str] | None:
        """Sums vectors over the workers, in the order of their ranks.

        16-bit floats are added up in float32 and rounded once.

        Args:
            vectors: each of shape (n,), one dtype, which NumPy adds; not all of them empty.
            totals: of the same shapes and dtype; are filled with the sums, the same bits
                everywhere.
            what: what this worker is about to do, to compare with the others.

        Returns:
            None; or, where the workers are about to do different things, what each of them is.
            Then nothing was summed.
        """
        dtype = vectors[0].dtype
        put = _cut(vectors, PIECE_BYTES // dtype.itemsize)
        take = _cut(totals, PIECE_BYTES // dtype.itemsize)
        small = len(put) == 1 and sum(part.nbytes for part in put[0]) <= SMALL_BYTES
        first, pieces = self._place, len(put)
        self._put(first, put[0])
        disagreement = self.agree(what)
        if disagreement is not None:
            return disagreement
        self._place += pieces - 1  # only now: the numbers of pieces may have differed
        with np.errstate(over="ignore", invalid="ignore"):  # infinite, as in TensorFlow
            if small:
                views = self._views(first, put[0])
                _spread(_added(views), take[0])
                return None
            for stage in range(1, pieces + 2):
                if stage < pieces:
                    self._put(first + stage, put[stage])
                if stage <= pieces:
                    self._add_share(self._views(first + stage - 1, put[stage - 1]))
                if stage >= 2:
                    done = self._views(first + stage - 2, put[stage - 2])[0]
                    _spread(done, take[stage - 2])
                if stage <= pieces:
                    self._barrier()
        return None

    def agree(self, what: str) -> list[str] | None:
        """Compares what the workers are about to do.

        Returns:
            None where all are about to do the same; else what each of them is.
        """
        place = self._place
        self._place += 1
        self._told[self._rank][place % _PLACES] = told(what)
        self._barrier()
        return different([each[place % _PLACES] for each in self._told])

    def _put(self, place: int, parts: Sequence[np.ndarray]) -> None:
        for there, part in _side_by_side(self._views(place, parts)[self._rank], parts):
            there[:] = part

    def _views(self, place: int, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Each worker's piece in a place, as large as the parts together and of their dtype."""
        size = sum(part.nbytes for part in parts)
        dtype = parts[0].dtype
        return [each[place % _PLACES][:size].view(dtype) for each in self._pieces]

    def _add_share(self, views: Sequence[np.ndarray]) -> None:
        """Adds up this worker's part of a piece, where the first worker's was."""
        begin = self._rank * views[0].size // self._workers
        end = (self._rank + 1) * views[0].size // self._workers
        parts = [view[begin:end] for view in views]
        _added(parts, out=parts[0])

    def _barrier(self) -> None:
        """Waits for all workers: at first awake, though others go before; then asleep by turns.

        MPI's own barrier keeps a processor busy until the last worker has come, and it may be the
        processor that this worker needs. Sleep alone costs more than a small sum: a processor that
        idles wakes late.
        """
        self._window.Sync()
        request = self._node.Ibarrier()
        if not request.Test():
            patience = time.perf_counter() + _SPIN_SECONDS
            while not request.Test():
                os.sched_yield()
                if time.perf_counter() > patience:
                    time.sleep(_SLEEP_SECONDS)
        self._window.Sync()


def _cut(vectors: Sequence[np.ndarray], size: int) -> list[list[np.ndarray]]:
    """Cuts vectors, one after the other, into pieces of `size` elements; the last has the rest."""
    pieces: list[list[np.ndarray]] = []
    room = 0
    for vector in vectors:
        begin = 0
        while begin < vector.size:
            if room == 0:
                pieces.append([])
                room = size
            part = vector[begin : begin + room]
            pieces[-1].append(part)
            begin += part.size
            room -= part.size
    return pieces


def _spread(piece: np.ndarray, parts: Sequence[np.ndarray]) -> None:
    for there, part in _side_by_side(piece, parts):
        part[:] = there


def _side_by_side(
    piece: np.ndarray, parts: Sequence[np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each part and where it stands in the piece."""
    begin = 0
    for part in parts:
        yield piece[begin : begin + part.size], part
        begin += part.size


def is_short_float(array: np.ndarray) -> bool:
    """Whether these are 16-bit floats."""
    return array.dtype.itemsize == 2 and array.dtype.kind not in "iu"


def _added(parts: Sequence[np.ndarray], out: np.ndarray | None = None) -> np.ndarray:
    """Adds arrays up from the first to the last, into `out`, which may be the first."""
    if is_short_float(parts[0]):
        exact = parts[0].astype(np.float32)
        for part in parts[1:]:
            exact += part.astype(np.float32)
        if out is None:
            return exact.astype(parts[0].dtype)
        out[:] = exact
        return out
    total = np.add(parts[0], parts[1], out=out)
    for part in parts[2:]:
        np.add(total, part, out=total)
    return total
