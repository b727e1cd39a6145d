"""All-reduce implementations, by name, and the choice between them.

A reducer of your own is used by its name once it is registered, in every worker:

>>> import tensorflow as tf
>>> from tfdp.collectives import LocalReduction, Reducer, register
>>> class OnTheLast(LocalReduction):
...     def sum(self, vectors, devices):
...         with tf.device(devices[-1]):
...             total = tf.add_n(vectors)
...         copies = []
...         for device in devices:
...             with tf.device(device):
...                 copies.append(tf.identity(total))
...         return copies
>>> class Mine(Reducer):
...     name, summary = "mine", "adds on the last device"
...     def refusal(self, topology):
...         return None if topology.workers == 1 else "it works on one host"
...     def local_reduction(self, topology):
...         return OnTheLast()
>>> register(Mine())
>>> tfdp.strategy("mirrored", devices=4, cross_device_ops="mine")   # doctest: +SKIP

Between workers supply a `WorkerReduction` instead. All replicas have to get the same bits.
"""

from __future__ import annotations

from tfdp.collectives.base import Reducer, Topology
from tfdp.collectives.between_workers import WorkerReduction
from tfdp.collectives.local import LocalReduction
from tfdp.collectives.registry import choose, names, register, resolve

__all__ = [
    "LocalReduction",
    "Reducer",
    "Topology",
    "WorkerReduction",
    "choose",
    "names",
    "register",
    "resolve",
]
