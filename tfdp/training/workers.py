"""What several workers must have in common before they train together."""

from __future__ import annotations

import tensorflow as tf

from tfdp.errors import RunError
from tfdp.training.progress import Progress


def check_same_progress(strategy: tf.distribute.Strategy, progress: Progress, place: str) -> None:
    """Refuses to go on where workers would resume from different states; a collective step.

    Args:
      strategy: every worker's.
      progress: how far the run has come, as this worker found it on its disk.
      place: the checkpoint, for the message.

    Raises:
      RunError: on all workers, where they differ.
    """
    gather = getattr(strategy, "tfdp_gather_from_workers", None)
    if gather is None:
        return
    found = gather(progress.total_steps % 2**31)
    if len(set(found)) > 1:
        steps = ", ".join(f"worker {worker}: {step}" for worker, step in enumerate(found))
        raise RunError(
            f"{place}: the workers would go on from different steps ({steps}).",
            hint="All workers must see the same run directory: put it on a shared file system.",
        )
