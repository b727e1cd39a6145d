"""Memory for results that TensorFlow takes over from NumPy as it is, and that is used again.

TensorFlow copies an array that does not begin at a multiple of 64 bytes, which large arrays of
NumPy's never do; and memory that is new in each step costs a page fault for every 4 kB of it. Both
together take as long as the sum of a large buffer.
"""

from __future__ import annotations

import sys

import numpy as np

ALIGNMENT = 64
LEAST_BYTES = 64 * 1024
"""Below it, NumPy's own memory is as fast."""
MOST_SIZES = 64
"""More sizes than a model has buckets come from data, and would fill the memory."""

_NOBODY_ELSE = 3  # references to a free block: the pool's list, a loop's variable, an argument


class HostBuffers:
    """Arrays whose memory is taken again when nobody refers to it any more. Not thread-safe."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[np.ndarray]] = {}

    def empty(self, size: int, dtype: np.dtype) -> np.ndarray:
        """A vector of any contents.

        Args:
            size: elements.
            dtype: without references to objects.
        """
        length = size * dtype.itemsize
        if length < LEAST_BYTES:
            return np.empty(size, dtype)
        block = self._free(length)
        first = -block.ctypes.data % ALIGNMENT
        return block[first : first + length].view(dtype)

    def _free(self, length: int) -> np.ndarray:
        blocks = self._blocks.get(length)
        if blocks is None:
            if len(self._blocks) == MOST_SIZES:
                self._blocks.clear()  # what is in use lives on until it is not
            blocks = self._blocks[length] = []
        for block in blocks:
            if sys.getrefcount(block) == _NOBODY_ELSE:
                return block
        block = np.empty(length + ALIGNMENT, np.uint8)
        blocks.append(block)
        return block
