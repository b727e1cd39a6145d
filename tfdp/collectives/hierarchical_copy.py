"""Tree-shaped copies between the devices of one host."""

from __future__ import annotations

import tensorflow as tf

from tfdp.collectives.base import Reducer, Topology


class HierarchicalCopy(Reducer):
    """Reduces within each half of the devices, then between the halves, and copies back."""

    name = "hierarchical_copy"
    summary = "tree-shaped copies between the devices of one host"

    def refusal(self, topology: Topology) -> str | None:
        if topology.workers > 1:
            return "hierarchical copy works between the devices of one host only"
        if topology.replicas % 2 and topology.replicas > 1:
            # TensorFlow's implementation then leaves the last device's values out of the sum.
            return "hierarchical copy needs two halves of equal size"
        return None

    def cross_device_ops(self, topology: Topology) -> tf.distribute.CrossDeviceOps:
        return tf.distribute.HierarchicalCopyAllReduce(num_packs=1)
