"""The iterators that carry a replica's rows to its device, without a thread that tunes nothing.

Each of them is an iterator of tf.data with a thread of its own that adjusts parallelism and
buffers, and has nothing to adjust. Ending such a thread can take until its next round, which is
up to a minute away: its wake-up call comes before the flag that it then looks at is set. With
many replicas an epoch often stalls on it.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import multi_device_iterator_ops

_stock_create = multi_device_iterator_ops._create_device_dataset


def create_device_dataset(*args: Any, **kwargs: Any) -> Any:
    """What one device iterates over, tuned by nobody."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return _stock_create(*args, **kwargs).with_options(options)
