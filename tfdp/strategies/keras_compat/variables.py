"""Variables of which every replica updates its own copy.

TensorFlow's `MirroredVariable` aggregates at each assignment, at a point where all replicas meet.
Here a replica assigns its own copy at once, and the copies are made equal at the end of the step
where they can differ (see `ReplicaStep.agree_on_state`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdp.strategies.keras_compat import tensorflow_parts as tfp
from tfdp.strategies.step import current_step


class ReplicaVariable(tfp.MirroredVariable):
    """A mirrored variable that replicas may assign anywhere, also in a branch of a `tf.cond`."""

    def __int__(self) -> int:
        return int(self.numpy())

    def __float__(self) -> float:
        return float(self.numpy())

    def _update_replica(self, update_fn: Callable[..., Any], value: Any, **kwargs: Any) -> Any:
        aggregation = self._aggregation
        step = current_step()
        if aggregation == tf.VariableAggregation.ONLY_FIRST_REPLICA and not tfp.replicas_can_meet():
            # Replica 0 cannot hand its value over from inside a branch. Keras uses this for the
            # optimizer's iteration counter, which every replica counts alike.
            return update_fn(self._get_on_device_or_primary(), value, **kwargs)
        if step is None or aggregation not in (
            tf.VariableAggregation.NONE,
            tf.VariableAggregation.MEAN,
        ):
            return super()._update_replica(update_fn, value, **kwargs)
        if self.dtype.is_floating and not self.trainable:
            step.note_assignment(self)
        return update_fn(self._get_on_device_or_primary(), value, **kwargs)


def adopt(variable: Any) -> Any:
    """Turns a freshly created plain mirrored variable into a `ReplicaVariable`."""
    if type(variable) is tfp.MirroredVariable:
        variable.__class__ = ReplicaVariable
    return variable
