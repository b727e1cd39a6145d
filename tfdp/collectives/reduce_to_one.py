"""Sum on one device, then copy the result to the others."""

from __future__ import annotations

import tensorflow as tf

from tfdp.collectives.base import Reducer, Topology
from tfdp.collectives.ordered import ordered_sum


class ReduceToOne(Reducer):
    """The simplest reduction; on devices that share memory it is also the fastest."""

    name = "reduce_to_one"
    summary = "sum on one device of the host, copy the result to the others"

    def refusal(self, topology: Topology) -> str | None:
        if topology.workers > 1:
            return "reducing to one device works between the devices of one host only"
        return None

    def cross_device_ops(self, topology: Topology) -> tf.distribute.CrossDeviceOps:
        return tf.distribute.ReductionToOneDevice(accumulation_fn=ordered_sum)
