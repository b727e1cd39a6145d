"""What several workers must have in common before they train together."""

from __future__ import annotations

import tensorflow as tf

from tfdp.errors import RunError


def check_same_epoch(strategy: tf.distribute.Strategy, epochs: int, directory: str) -> None:
    """Refuses to go on where workers would resume from different epochs; a collective step.

    Args:
      strategy: every worker's.
      epochs: finished epochs, as this worker found them in its run directory.
      directory: the run directory, for the message.

    Raises:
      RunError: on all workers, where they differ.
    """

    @tf.function
    def moments() -> tuple[tf.Tensor, tf.Tensor]:
        def local() -> tuple[tf.Tensor, tf.Tensor]:
            value = tf.constant(epochs, tf.float64)
            return value, value * value

        return tuple(
            strategy.reduce(tf.distribute.ReduceOp.SUM, part, axis=None)
            for part in strategy.run(local)
        )

    total, squares = (float(value) for value in moments())
    replicas = strategy.num_replicas_in_sync
    # All equal if and only if N times the sum of the squares is the square of the sum.
    if replicas * squares != total * total:
        raise RunError(
            f"{directory}: the workers would resume from different epochs (this one from "
            f"{epochs}, {total / replicas:g} on average).",
            hint="All workers must see the same run directory: put it on a shared file system.",
        )
