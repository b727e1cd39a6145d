"""The closed choices of a config, kept apart so that they can be read without TensorFlow."""

from __future__ import annotations

from typing import Final

STRATEGY_KINDS: Final = ("auto", "single", "mirrored", "multi_worker")

CROSS_DEVICE_OPS: Final = (
    "auto",
    "nccl",
    "hierarchical_copy",
    "reduce_to_one",
    "ring",
    "two_level",
    "mpi",
)

COMPRESSIONS: Final = ("none", "fp16", "bf16", "topk", "powersgd")

BETWEEN: Final = ("auto", "ring", "mpi", "nccl")
"""What `two_level` may use between workers."""

DATA_SETS: Final = (
    "fashion_mnist",
    "npz",
    "csv",
    "parquet",
    "tfrecord",
    "image_folder",
    "tfds",
)

REMAINDERS: Final = ("exact", "drop", "pad")

SHARD_POLICIES: Final = ("auto", "data", "file", "off")

ON_ERROR: Final = ("fail", "skip")

MODELS: Final = ("resnet_small",)

MIXED_PRECISION: Final = ("none", "bfloat16", "float16")

BEST_MODES: Final = ("auto", "min", "max")

NOT_FINITE_ACTIONS: Final = ("stop", "skip_batch", "lower_rate")

OPTIMIZERS: Final = (
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "ftrl",
    "lamb",
    "lion",
    "muon",
    "nadam",
    "rmsprop",
    "schedulefreeadamw",
    "sgd",
)
"""The optimizers of Keras by lower-case class name (a test compares them with Keras)."""
