"""A checksum of each replica's own copy of each variable, to the bit.

A variable's content is read as 64-bit words. The upper half of each is folded into the lower one,
which can be undone, and the word is multiplied by an odd number that belongs to its position; the
products are added modulo 2^64. So a change of any one word changes the sum for certain, and other
differences, swapped values among them, escape by a rare chance only. Integer sums do not depend on
the order in which a device adds.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfdp.strategies.state import state_variables

_WORD_BYTES = 8
_COLUMNS = 4096
_GOLDEN = 0x9E3779B97F4A7C15  # the constants of SplitMix64
_MIX = 0xBF58476D1CE4E5B9


def equal_variables(model: Any) -> list[Any]:
    """The Keras variables of which every replica must have the same copy.

    Weights, statistics, seeds and the optimizer's state; not the parts of a sum that each replica
    keeps of its own, such as gradient accumulators and metrics.
    """
    return [
        variable
        for variable in state_variables(model)
        if variable.value.dtype != tf.string
        and getattr(variable.value, "synchronization", None) != tf.VariableSynchronization.ON_READ
    ]


def replica_checksums(
    variables: Sequence[Any], strategy: tf.distribute.Strategy
) -> list[list[int]]:
    """For each replica of this process the checksum of each variable, signed 64-bit numbers."""
    copies = [strategy.experimental_local_results(variable.value) for variable in variables]
    replicas = len(copies[0]) if copies else 0
    # Everything is started before the first result is waited for: the devices work side by side.
    sums = [_on_device([each[replica] for each in copies]) for replica in range(replicas)]
    return [[int(number) for number in each.numpy()] for each in sums]


def fold(numbers: Sequence[int]) -> int:
    """One signed 64-bit number for a row of them, in order."""
    folded = 0
    for number in numbers:
        folded = ((folded ^ number) * _GOLDEN + 1) % 2**64
    return folded - 2**64 if folded >= 2**63 else folded


def _on_device(copies: Sequence[Any]) -> tf.Tensor:
    with tf.device(copies[0].device):
        return tf.stack([_sum_of_words(_words(tf.convert_to_tensor(copy))) for copy in copies])


def _words(values: tf.Tensor) -> tf.Tensor:
    """The bits of a tensor as a vector of int64, with zeros after the end."""
    flat = tf.reshape(values, [-1])
    if flat.dtype == tf.bool:
        flat = tf.cast(flat, tf.uint8)
    in_word = _WORD_BYTES // flat.dtype.size
    if in_word <= 1:
        return tf.reshape(tf.bitcast(flat, tf.int64), [-1])
    missing = -flat.shape[0] % in_word
    if missing:
        flat = tf.pad(flat, [[0, missing]])
    return tf.bitcast(tf.reshape(flat, [-1, in_word]), tf.int64)


@functools.cache
def _column_weights() -> np.ndarray:
    """Odd int64 numbers, as if by chance."""
    numbers = np.arange(1, _COLUMNS + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(_MIX)
    return ((numbers ^ (numbers >> np.uint64(27))) | np.uint64(1)).view(np.int64)


@tf.function(input_signature=[tf.TensorSpec([None], tf.int64)], autograph=False)
def _sum_of_words(words: tf.Tensor) -> tf.Tensor:
    """Four passes over the words; a position's weight is its row's times its column's."""
    folded = _fold_down(words)
    columns = tf.constant(_column_weights())
    rows = tf.size(words, tf.int64) // _COLUMNS
    whole = tf.reshape(folded[: rows * _COLUMNS], [rows, _COLUMNS])
    rest = folded[rows * _COLUMNS :]
    sums = tf.concat(
        [
            tf.reduce_sum(whole * columns, axis=1),
            tf.reduce_sum(rest * columns[: tf.size(rest)], keepdims=True),
        ],
        axis=0,
    )
    numbers = _fold_down(tf.range(1, rows + 2, dtype=tf.int64) * (_GOLDEN - 2**64))
    weights = tf.bitwise.bitwise_or(numbers * (_MIX - 2**64), tf.constant(1, tf.int64))
    return tf.reduce_sum(sums * weights)


def _fold_down(words: tf.Tensor) -> tf.Tensor:
    """The upper half of each word into its lower one; it can be undone."""
    unsigned = tf.bitcast(words, tf.uint64)  # whose shift brings in zeros, not the sign
    upper = tf.bitwise.right_shift(unsigned, tf.constant(32, tf.uint64))
    return tf.bitcast(tf.bitwise.bitwise_xor(unsigned, upper), tf.int64)
