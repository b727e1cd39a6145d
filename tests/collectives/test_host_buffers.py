"""Memory for results: aligned, and nobody's twice at once."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfdp.collectives.host_buffers import ALIGNMENT, LEAST_BYTES, MOST_SIZES, HostBuffers

SIZE = LEAST_BYTES


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, tf.bfloat16.as_numpy_dtype])
def test_arrays_are_aligned(dtype: type) -> None:
    array = HostBuffers().empty(SIZE, np.dtype(dtype))
    assert array.shape == (SIZE,)
    assert array.dtype == dtype
    assert array.ctypes.data % ALIGNMENT == 0
    assert array.flags.c_contiguous
    assert array.flags.writeable


def test_memory_is_used_again_when_it_is_free_and_not_before() -> None:
    buffers = HostBuffers()
    first = buffers.empty(SIZE, np.dtype(np.float32))
    place = first.ctypes.data
    part = first[10:20].reshape(2, 5)
    del first
    second = buffers.empty(SIZE, np.dtype(np.float32))
    assert second.ctypes.data != place  # a view of a view still refers to it
    del part
    assert buffers.empty(SIZE, np.dtype(np.float32)).ctypes.data == place


def test_tensors_keep_what_they_were_made_of() -> None:
    """TensorFlow takes the memory over; as long as a tensor lives it is not handed out again."""
    buffers = HostBuffers()

    def result(number: np.ndarray) -> np.ndarray:
        array = buffers.empty(SIZE, np.dtype(np.float32))
        array[:] = number
        return array

    @tf.function
    def traced(number: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.numpy_function(result, [number], tf.float32), [SIZE])

    tensors = [traced(tf.constant(float(number))) for number in range(20)]
    for number, tensor in enumerate(tensors):
        np.testing.assert_array_equal(tensor.numpy(), np.full(SIZE, number, np.float32))
    del tensors, tensor
    traced(tf.constant(0.0))
    made = sum(len(blocks) for blocks in buffers._blocks.values())
    for number in range(20):
        assert float(traced(tf.constant(float(number)))[-1]) == number
    assert sum(len(blocks) for blocks in buffers._blocks.values()) == made


def test_few_sizes_are_kept() -> None:
    buffers = HostBuffers()
    for extra in range(3 * MOST_SIZES):
        buffers.empty(SIZE + extra, np.dtype(np.uint8))
    assert len(buffers._blocks) <= MOST_SIZES
