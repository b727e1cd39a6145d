"""A checksum of each replica's own copy of each variable, to the bit.

A variable's content is read as 64-bit words. Each word is mixed with its position, one-to-one for
a given position, and the results are added with wrap-around. So a change of any one word changes
the sum for certain, and other differences, swapped values among them, escape by a rare chance
only. Integer sums do not depend on the order in which a device adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfdp.strategies.state import state_variables

_WORD_BYTES = 8
# Odd, so that to multiply by them modulo 2^64 can be undone: from SplitMix64, as signed numbers.
_OF_VALUE = 0x9E3779B97F4A7C15 - 2**64
_OF_POSITION = 0xBF58476D1CE4E5B9 - 2**64
_AGAIN = 0x94D049BB133111EB - 2**64


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
        folded = ((folded ^ number) * _OF_VALUE + 1) % 2**64
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


@tf.function(input_signature=[tf.TensorSpec([None], tf.int64)], autograph=False)
def _sum_of_words(words: tf.Tensor) -> tf.Tensor:
    mixed = words * _OF_VALUE + tf.range(tf.size(words, tf.int64), dtype=tf.int64) * _OF_POSITION
    return tf.reduce_sum(_fold_down(_fold_down(mixed) * _AGAIN))


def _fold_down(words: tf.Tensor) -> tf.Tensor:
    """The upper half of each word into its lower one; it can be undone."""
    lower_half = tf.constant(2**32 - 1, tf.int64)
    # The shift is arithmetic, so the copies of the sign that it brings in are cut off.
    upper = tf.bitwise.bitwise_and(tf.bitwise.right_shift(words, 32), lower_half)
    return tf.bitwise.bitwise_xor(words, upper)
