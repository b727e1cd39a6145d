"""Gradients in 16 bits on their way between workers: half the bytes of float32.

With u the unit roundoff, N workers and g_w the sum of the gradients inside worker w, the result
differs from the exact sum of all g_w by at most ((1 + u)^N - 1) sum |g_w|: each g_w is rounded
once, and N - 1 additions round again. (`mpi` adds in float32 and rounds twice, whatever N.)

========  =======  =================  ======================================================
name      u        range              beyond it
========  =======  =================  ======================================================
``bf16``  2**-8    that of float32    (values of float64 beyond it become infinite)
``fp16``  2**-11   6e-5 to 65504      larger sums become infinite, smaller ones lose digits
                                      and vanish below 6e-8
========  =======  =================  ======================================================

Every replica gets the same bits, so the replicas' models stay equal; they are not what one device
would train, but what it would train with gradients rounded this much. Do not use it where that
matters, nor where the link is as fast as memory: rounding costs two passes over the gradients.
"""

from __future__ import annotations

import difflib
from typing import Final

import tensorflow as tf

from tfdp.collectives.base import Reducer, Topology
from tfdp.collectives.between_workers import WorkerReduction
from tfdp.errors import StrategyError

NONE: Final = "none"
_TRANSIT: Final = {"fp16": tf.float16, "bf16": tf.bfloat16}
_WIDE: Final = (tf.float32, tf.float64)


class Rounded(WorkerReduction):
    """Another reduction, with float32 and float64 values rounded to 16 bits on the way.

    Values of other dtypes (indices, counts, gradients that have 16 bits already) pass unchanged.

    Args:
        inner: reduces between the workers.
        transit: tf.float16 or tf.bfloat16.
    """

    def __init__(self, inner: WorkerReduction, transit: tf.DType) -> None:
        self._inner = inner
        self._transit = transit

    @property
    def rank(self) -> int | None:
        return self._inner.rank

    def sum(self, vector: tf.Tensor, when: tf.Tensor | None = None) -> tf.Tensor:
        if vector.dtype not in _WIDE:
            return self._inner.sum(vector, when)
        total = self._inner.sum(tf.cast(vector, self._transit), when)
        if when is None:
            return tf.cast(total, vector.dtype)
        result = tf.cond(when, lambda: tf.cast(total, vector.dtype), lambda: tf.identity(vector))
        return tf.ensure_shape(result, vector.shape)

    def gather(self, rows: tf.Tensor) -> tf.Tensor:
        if rows.dtype not in _WIDE:
            return self._inner.gather(rows)
        return tf.cast(self._inner.gather(tf.cast(rows, self._transit)), rows.dtype)


def compressions() -> tuple[str, ...]:
    """All names that `compression` accepts, "none" first."""
    return (NONE, *_TRANSIT)


def check_compression(name: str, reducer: Reducer, topology: Topology) -> None:
    """Raises StrategyError where there is no such compression, or it could do nothing."""
    if name not in compressions():
        near = difflib.get_close_matches(str(name), compressions(), n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise StrategyError(
            f"compression={name!r} is not known.{meant} Known: {', '.join(compressions())}."
        )
    if name == NONE:
        return
    if topology.workers == 1:
        raise StrategyError(
            f"compression={name!r} shortens what goes between workers, and there is one worker.",
            hint="Leave compression out.",
        )
    if not reducer.reduces_between_workers:
        raise StrategyError(
            f"compression={name!r} needs a reducer that sums once for each worker, and "
            f"{reducer.name!r} sums between the replicas.",
            hint='Use cross_device_ops="two_level" or "mpi", or leave compression out.',
        )


def compress(reduction: WorkerReduction | None, name: str) -> WorkerReduction | None:
    """The reduction for gradients: `reduction` itself for "none"."""
    if reduction is None or name == NONE:
        return reduction
    return Rounded(reduction, _TRANSIT[name])
