"""What several workers must have in common before they train together."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from tfdp.errors import RunError
from tfdp.training.progress import Progress
from tfdp.training.variables import StateArray

_HINT = "All workers must see the same run directory: put it on a shared file system."


def check_same_progress(
    strategy: tf.distribute.Strategy,
    progress: Progress,
    place: str,
    variables: Iterable[StateArray] = (),
) -> None:
    """Refuses to go on where workers would resume from different states; a collective step.

    All workers call it, also one that found nothing to go on from.

    Args:
      strategy: every worker's.
      progress: how far the run has come, as this worker found it on its disk.
      place: the checkpoint, for the message.
      variables: the state that it found.

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
            f"{place}: the workers would go on from different steps ({steps}).", hint=_HINT
        )
    if len(set(gather(_checksum(variables)))) > 1:
        raise RunError(
            f"{place}: the workers would go on from different states of step "
            f"{progress.total_steps}.",
            hint=_HINT,
        )


def _checksum(variables: Iterable[StateArray]) -> int:
    """Below 2**31."""
    found = 0
    for each in variables:
        found = zlib.crc32(np.ascontiguousarray(each.value).tobytes(), found)
    return found % 2**31
