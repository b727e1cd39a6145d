"""Python state of layers that replicas must not share while they are traced side by side.

The replicas of one process take turns at tracing the same model, and hand over wherever they
meet. What one replica's forward pass leaves on a layer is then overwritten by the next.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from keras.src import backend, tree
from keras.src.layers.layer import Layer
from keras.src.random.seed_generator import SeedGenerator

from tfdp.strategies.step import current_step

_stock_add_loss = Layer.add_loss
_stock_own_losses = Layer._get_own_losses
_stock_clear_losses = Layer._clear_losses
_stock_next = SeedGenerator.next

# An odd number close to 2**31 / golden ratio: seeds of neighbouring replicas share few bits.
_SEED_STRIDE = 1_327_217_885
_SEED_MODULUS = 2**31 - 1


def add_loss(self: Any, loss: Any) -> None:
    """`Layer.add_loss`, into the step of the calling replica."""
    step = current_step()
    if step is None or backend.in_stateless_scope():
        _stock_add_loss(self, loss)
        return
    added = tree.flatten(loss)
    for value in added:
        if not backend.is_tensor(value):
            raise ValueError(
                "`add_loss()` can only be called from inside `build()` or `call()`, on a tensor "
                f"input. Received invalid value: {value}"
            )
    step.losses.setdefault(id(self), []).extend(added)


def get_own_losses(self: Any) -> list[Any]:
    """The losses that the calling replica's forward pass added to this layer."""
    step = current_step()
    if step is None or backend.in_stateless_scope():
        return list(_stock_own_losses(self))
    return list(step.losses.get(id(self), []))


def clear_losses(self: Any) -> None:
    """Forgets what earlier calls in this step added to this layer and those inside it."""
    step = current_step()
    if step is None or backend.in_stateless_scope():
        _stock_clear_losses(self)
        return
    step.losses.pop(id(self), None)
    for layer in self._layers:
        layer._clear_losses()


def next_seed(self: Any, ordered: bool = True) -> Any:
    """`SeedGenerator.next`: every replica draws a stream of its own from the one state.

    Replica 0 draws what one device draws. The state counts alike on all replicas, so that it can
    be saved once and a restart continues every stream.
    """
    seed = _stock_next(self, ordered)
    if current_step() is None:
        return seed
    context = tf.distribute.get_replica_context()
    replica = tf.cast(context.replica_id_in_sync_group, tf.int64)
    shift = tf.cast((replica * _SEED_STRIDE) % _SEED_MODULUS, seed.dtype)
    return seed + tf.stack([shift, tf.zeros_like(shift)])
