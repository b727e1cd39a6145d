"""Section ``data``: the examples, and how many make a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfdp.config.checks import (
    a_path,
    at_least,
    either_name_or_function,
    finite,
    function_reference,
    less_than,
    one_of,
    service_address,
)
from tfdp.config.names import DATA_SETS, ON_ERROR, REMAINDERS, SHARD_POLICIES
from tfdp.config.section import Rule, Section, setting


@dataclass(frozen=True, kw_only=True)
class DataConfig(Section):
    """The examples, and how many of them make a step."""

    name: str | None = setting(
        f"A source that tfdp knows: {', '.join(DATA_SETS)}. Either this or function.",
        one_of(DATA_SETS, what="data set"),
        default=None,
    )
    function: str | None = setting(
        'Your own, as "module:function", found in the config file\'s directory or among the '
        "installed packages. It is called with arguments.",
        function_reference,
        default=None,
    )
    arguments: Mapping[str, Any] = setting(
        "Keyword arguments of the data set or function.", default=dict
    )
    global_batch: int = setting(
        "Examples per step over all replicas, at least one for each.", at_least(1), default=64
    )
    validation_fraction: float = setting(
        "Part of the training examples that is held out for validation, at least 0 and less "
        "than 1; 0: none, unless the data brings validation examples of its own.",
        finite,
        at_least(0),
        less_than(1),
        default=0.0,
    )
    shuffle: bool = setting("A new order of the training examples every epoch.", default=True)
    seed: int = setting(
        "Seed of the order and of the validation split.", at_least(0), less_than(2**31), default=0
    )

    remainder: str = setting(
        "The last batch of an epoch, where the examples do not divide: exact: has those that are "
        "left, each weighing as much as any other; drop: is left out; pad: is filled up at weight "
        "0, so that every batch has the same shape.",
        one_of(REMAINDERS, what="remainder"),
        default="exact",
    )
    shard: str = setting(
        "How workers share the reading: data: each reads, or of a stream parses, its own examples "
        "alone, in one order for any number of workers; file: each reads whole files of its own; "
        "off: each worker's examples are its own already. auto: what the source allows.",
        one_of(SHARD_POLICIES, what="policy"),
        default="auto",
    )
    shuffle_buffer: int = setting(
        "Examples of a stream (TFRecord files) that are shuffled together, in serialized form; "
        "rows that can be read in any order are always shuffled all together.",
        at_least(1),
        default=10_000,
    )
    transform: str | None = setting(
        'Changes each training example: "module:function", called as f(x, y, seed) with '
        "TensorFlow tensors of one example and a seed of its own for tf.random.stateless_* and "
        "tf.image.stateless_random_*; returns (x, y).",
        function_reference,
        default=None,
    )
    on_error: str = setting(
        "An example in a file that cannot be read: fail: stop and name the file and the place; "
        "skip: look all files through at the start, leave the bad examples out, and say how many.",
        one_of(ON_ERROR, what="choice"),
        default="fail",
    )
    cache: str | None = setting(
        "Read and decode all examples once: memory, or a folder for files, relative to the run "
        "directory; null: read them anew in every epoch. The examples of a stream are then rows, "
        "shuffled all together.",
        a_path,
        default=None,
    )
    parallel_calls: int | None = setting(
        "Pieces of batches that are read, decoded and transformed at a time; null: as many as the "
        "machine has cores.",
        at_least(1),
        default=None,
    )
    prefetch: int = setting("Finished batches that wait for the replicas.", at_least(0), default=2)

    service: str | None = setting(
        "A tf.data service, grpc://host:port, whose workers read, decode and transform the "
        "training examples; null: each training worker does so itself.",
        service_address,
        default=None,
    )

    rules = (Rule(("name", "function"), either_name_or_function, blame="name"),)
