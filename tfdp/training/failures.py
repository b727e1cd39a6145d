"""Errors from inside TensorFlow and Keras, told in the terms of a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import tensorflow as tf

from tfdp.data.failures import explain
from tfdp.data.sources.base import Source
from tfdp.errors import ClusterError, DataError, RunError, TfdpError

_PEER = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.DeadlineExceededError,
    tf.errors.CancelledError,
)

# TensorFlow's collective ops, and `tfdp.collectives.mpi`.
_DISAGREEMENT = re.compile(
    r"mismatch in the collective instance|Collective instance \d+ expected|to different reductions"
)

_NOISE = ("Graph execution error:", "Detected at node", 'File "', "<stack traces", "[[{{node")


@contextmanager
def training_errors(
    where: Callable[[], str], sources: Sequence[Source] = (), *, workers: int
) -> Iterator[None]:
    """Turns what TensorFlow and Keras raise inside the block into a `TfdpError`.

    The original exception, with its traceback, is the cause of the new one. A `TfdpError`, a
    keyboard interrupt, and faults that are neither TensorFlow's nor Keras' pass unchanged.

    Args:
      where: says how far the run had come, as in "step 12 (epoch 1)".
      sources: what is read inside the block; an example that cannot be read is looked for here.
      workers: how many workers take part.

    Raises:
      DataError: TensorFlow refused a value, such as a label.
      ClusterError: another worker is gone.
      RunError: everything else: out of memory, shapes that do not match, the disk.
    """
    try:
        yield
    except TfdpError:
        raise
    except tf.errors.OpError as error:
        raise _explain(error, where(), sources, workers) from error
    except (ValueError, TypeError, OSError) as error:
        raise RunError(
            f"training stopped after {where()}: {type(error).__name__}: {_brief(str(error))}"
        ) from error


def _explain(
    error: tf.errors.OpError, where: str, sources: Sequence[Source], workers: int
) -> TfdpError:
    unreadable = explain(error, *sources)
    if unreadable is not None:
        return DataError(
            f"training stopped after {where}: {unreadable.message}", hint=unreadable.hint
        )
    text = _brief(error.message or str(error))
    if workers > 1 and _DISAGREEMENT.search(error.message or ""):
        return ClusterError(
            f"training stopped after {where}: the workers came to different reductions: {text}",
            hint="All workers have to run the same program on the same model, in one order.",
        )
    if workers > 1 and isinstance(error, _PEER):
        return ClusterError(
            f"training stopped after {where}: another worker is gone: {text}",
            hint="Look at the output of the other workers, then start all of them with --resume.",
        )
    if isinstance(error, tf.errors.ResourceExhaustedError):
        return RunError(
            f"training stopped after {where}: out of memory or disk space: {text}",
            hint="Set a smaller data.global_batch or a smaller model, or make room on the disk.",
        )
    if isinstance(error, tf.errors.InvalidArgumentError):
        return DataError(f"training stopped after {where}: {text}")
    return RunError(f"training stopped after {where}: {type(error).__name__}: {text}")


def _brief(text: str, limit: int = 600) -> str:
    """What a message says, without the graph nodes and stack that TensorFlow puts around it."""
    lines = [line.strip() for line in text.strip().splitlines()]
    brief = " ".join(line for line in lines if line and not line.startswith(_NOISE))
    brief = brief or " ".join(lines)
    return brief if len(brief) <= limit else f"{brief[:limit]}..."
