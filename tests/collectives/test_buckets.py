"""Buckets: their order, sizes and dtypes, and that everything comes back in its place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import tensorflow as tf

from tfdp.collectives.buckets import bucket_bytes_of, fill, reduce_in_buckets
from tfdp.errors import StrategyError


def spec(elements: int | None, dtype: str = "float32") -> tf.TensorSpec:
    return tf.TensorSpec([elements], dtype)


def test_the_last_tensor_comes_first_and_every_tensor_once() -> None:
    assert fill([spec(1), spec(2), spec(3)], 1000) == [[2, 1, 0]]
    assert fill([], 1000) == []


def test_a_bucket_is_closed_when_it_is_full() -> None:
    """Sizes 4, 8, 8 and 40 bytes against 16: what fills a bucket still goes into it."""
    tensors = [spec(1), spec(2), spec(2), spec(10)]
    assert fill(tensors, 16) == [[3], [2, 1], [0]]
    assert fill(tensors, 41) == [[3, 2], [1, 0]]
    assert fill(tensors, 1) == [[3], [2], [1], [0]]


def test_bytes_count_not_elements() -> None:
    assert fill([spec(4, "float16")] * 3, 16) == [[2, 1], [0]]
    assert fill([spec(4, "float64")] * 3, 16) == [[2], [1], [0]]


def test_each_bucket_has_one_dtype() -> None:
    tensors = [spec(1), spec(1, "float64"), spec(1), spec(1, "float64")]
    assert fill(tensors, 1000) == [[3, 1], [2, 0]]


def test_a_tensor_of_unknown_size_is_alone_and_leaves_the_open_bucket_open() -> None:
    assert fill([spec(1), spec(None), spec(1)], 1000) == [[2, 0], [1]]


def test_scalars_and_empty_tensors_share_a_bucket() -> None:
    tensors = [tf.TensorSpec([], "float32"), tf.TensorSpec([0, 3], "float32"), spec(3)]
    assert fill(tensors, 1000) == [[2, 1, 0]]


def test_every_tensor_comes_back_in_its_place_and_shape() -> None:
    tensors = [
        tf.constant(1.0),
        tf.constant([[2.0, 3.0]], tf.float64),
        tf.zeros((0, 3)),
        tf.reshape(tf.range(6.0), (2, 3)),
        tf.constant([4], tf.int64),
    ]
    sizes = []

    def double(vectors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        sizes.append(sum(vector.shape.num_elements() for vector in vectors))
        return [vector * 2 for vector in vectors]

    for bucket_bytes, calls in ((1000, [1, 7, 2]), (1, [1, 6, 1, 2])):
        sizes.clear()
        results = reduce_in_buckets(tensors, bucket_bytes, double)
        assert sizes == calls
        for result, tensor in zip(results, tensors, strict=True):
            assert result.dtype == tensor.dtype
            np.testing.assert_array_equal(result, 2 * tensor.numpy())


def test_a_size_in_mb() -> None:
    assert bucket_bytes_of("auto") == 4 * 2**20
    assert bucket_bytes_of(16) == 16 * 2**20
    assert bucket_bytes_of(0.5) == 2**19
    assert bucket_bytes_of(1e-9) == 1
    for wrong in (0, -1, float("nan"), float("inf"), "4", True, None):
        with pytest.raises(StrategyError, match=r"neither \"auto\" nor a positive"):
            bucket_bytes_of(wrong)  # type: ignore[arg-type]


def test_shapes_that_only_the_run_knows() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, 2]), tf.TensorSpec([3])])
    def run(rows: tf.Tensor, fixed: tf.Tensor) -> list[tf.Tensor]:
        return reduce_in_buckets([rows, fixed], 1000, lambda each: [each[0] + 1])

    rows, fixed = run(tf.zeros((5, 2)), tf.zeros(3))
    assert rows.shape == (5, 2)
    assert fixed.numpy().tolist() == [1.0, 1.0, 1.0]
