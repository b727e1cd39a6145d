"""Gradients that take fewer bytes between workers: the names, and those of 16 bits.

`topk` and `powersgd` have files of their own. ``fp16`` and ``bf16`` have half the bytes of float32.

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

import dataclasses
import difflib
from typing import Final

import tensorflow as tf

from tfdp.collectives.base import Reducer, Topology
from tfdp.collectives.between_workers import WorkerReduction
from tfdp.collectives.compression_powersgd import PowerSgd
from tfdp.collectives.compression_topk import TopK
from tfdp.errors import StrategyError

NONE: Final = "none"
TOPK: Final = "topk"
POWERSGD: Final = "powersgd"
_TRANSIT: Final = {"fp16": tf.float16, "bf16": tf.bfloat16}
_WIDE: Final = (tf.float32, tf.float64)


@dataclasses.dataclass(frozen=True)
class Compression:
    """A compression and its options.

    Attributes:
        name: one of `compressions`.
        rank: of the matrices of "powersgd".
        ratio: of the elements that "topk" sends.
        warmup_steps: first steps in which "topk" and "powersgd" send everything.

    Raises:
        StrategyError: there is no such compression, or an option is out of range.
    """

    name: str = NONE
    rank: int = 4
    ratio: float = 0.01
    warmup_steps: int = 0

    def __post_init__(self) -> None:
        if self.name not in compressions():
            near = difflib.get_close_matches(str(self.name), compressions(), n=1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise StrategyError(
                f"compression={self.name!r} is not known.{meant} Known: "
                f"{', '.join(compressions())}."
            )
        if not _is_whole(self.rank) or self.rank < 1:
            raise StrategyError(f"compression_rank={self.rank!r} is not an integer of 1 or more.")
        if not isinstance(self.ratio, float) or not 0 < self.ratio < 1:
            raise StrategyError(
                f"compression_ratio={self.ratio!r} is not a number between 0 and 1.",
                hint="0.01 sends one element of a hundred.",
            )
        if not _is_whole(self.warmup_steps) or self.warmup_steps < 0:
            raise StrategyError(
                f"compression_warmup_steps={self.warmup_steps!r} is not an integer of 0 or more."
            )

    def describe(self) -> str:
        """Text that differs where gradients are treated differently."""
        if self.name == TOPK:
            return f"topk of {self.ratio:g} after {self.warmup_steps} steps"
        if self.name == POWERSGD:
            return f"powersgd of rank {self.rank} after {self.warmup_steps} steps"
        return self.name


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
    return (NONE, *_TRANSIT, TOPK, POWERSGD)


def check_compression(name: str, reducer: Reducer, topology: Topology) -> None:
    """Raises StrategyError where there is no such compression, or it could do nothing."""
    Compression(name)
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


def compress(
    reduction: WorkerReduction | None, compression: str | Compression
) -> WorkerReduction | None:
    """The reduction for gradients: `reduction` itself for "none"."""
    wanted = Compression(compression) if isinstance(compression, str) else compression
    if reduction is None or wanted.name == NONE:
        return reduction
    if wanted.name == TOPK:
        return TopK(reduction, wanted.ratio, wanted.warmup_steps)
    if wanted.name == POWERSGD:
        return PowerSgd(reduction, wanted.rank, wanted.warmup_steps)
    return Rounded(reduction, _TRANSIT[wanted.name])


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)
