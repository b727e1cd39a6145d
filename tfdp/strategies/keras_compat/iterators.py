"""The iterators that carry a replica's rows to its device.

TensorFlow makes a pipeline on each device, of six functions that are traced anew in each epoch:
0.1 seconds and more for each replica. Where all replicas compute on the host there is nothing to
carry: they take their rows in turn from the one pipeline that makes them.

On other devices, each of those pipelines has a thread of its own that adjusts parallelism and
buffers, and has nothing to adjust. Ending such a thread can take until its next round, which is
up to a minute away: its wake-up call comes before the flag that it then looks at is set. With
many replicas an epoch often stalls on it; so there is none.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import multi_device_iterator_ops
from tensorflow.python.distribute import input_lib

_stock_create = multi_device_iterator_ops._create_device_dataset
_stock_list = input_lib._SingleWorkerDatasetIteratorBase.get_next_as_list
_stock_optional_list = input_lib._SingleWorkerDatasetIteratorBase.get_next_as_optional_list


class _OnHost(tf.distribute.InputOptions):
    """Tells iterators of ours from all others; its values say that nothing is carried."""

    __slots__ = ()


_ON_HOST = _OnHost(
    experimental_fetch_to_device=False,
    experimental_replication_mode=tf.distribute.InputReplicationMode.PER_REPLICA,
)


def stays_on_host(devices: tuple[str, ...]) -> bool:
    """Whether rows for replicas on these devices need not be carried anywhere."""
    kinds = {tf.DeviceSpec.from_string(device).device_type for device in devices}
    return kinds == {"CPU"}


def iterate_on_host(distributed: Any) -> None:
    """Has replicas on the host take their rows in turn, one element each.

    Args:
        distributed: what a strategy made of data sets, without options. Their elements have to be
            made ahead (`prefetch`), since nothing else does that.
    """
    distributed._options = _ON_HOST


def get_next_as_list(self: Any, name: str | None = None) -> Any:
    """The next element for each replica of this worker."""
    if not isinstance(self._options, _OnHost):
        return _stock_list(self, name)
    with tf.device(self._worker):
        return [self._iterator.get_next() for _ in self._devices]


def get_next_as_optional_list(self: Any) -> Any:
    """As `get_next_as_list`, where there may be no more."""
    if not isinstance(self._options, _OnHost):
        return _stock_optional_list(self)
    with tf.device(self._worker):
        return [self._iterator.get_next_as_optional() for _ in self._devices]


def create_device_dataset(*args: Any, **kwargs: Any) -> Any:
    """What one device iterates over, tuned by nobody."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return _stock_create(*args, **kwargs).with_options(options)
