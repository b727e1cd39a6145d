"""One step as its times tell it: what ran when, and how much of the communication was hidden."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bucket:
    """A buffer of gradients on one replica; seconds from the beginning of the step.

    Attributes:
      size_bytes: of the buffer.
      ready: when the gradients were there.
      begin: when its communication could begin: it was ready, and the one before had ended.
      end: when the sum was there. Waiting for the other replicas is part of it.
    """

    size_bytes: int
    ready: float
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """Of communication."""
        return self.end - self.begin


@dataclass(frozen=True)
class Step:
    """One replica's step; seconds from its beginning.

    Attributes:
      start: when it began, seconds since 1970.
      loss: when the forward pass had ended; input is part of that pass.
      buckets: in the order of their communication.
      end: when the step had ended.
    """

    start: float
    loss: float
    buckets: tuple[Bucket, ...]
    end: float

    @property
    def backward_end(self) -> float:
        """When the last gradient was there."""
        return max(bucket.ready for bucket in self.buckets)

    @property
    def communication(self) -> float:
        """Seconds in which a buffer was on its way."""
        return sum(bucket.seconds for bucket in self.buckets)

    @property
    def hidden(self) -> float:
        """Seconds of it while the backward pass still ran."""
        last = self.backward_end
        return sum(max(0.0, min(b.end, last) - min(b.begin, last)) for b in self.buckets)

    @property
    def hidden_share(self) -> float:
        """Of the communication; 0 where there is none."""
        return self.hidden / self.communication if self.communication > 0 else 0.0


def read_step(noted: dict[str, Any], replica: int) -> Step:
    """From what a process has noted of a step; see `timeline_subject`."""
    start = noted["begin"]
    buckets: list[Bucket] = []
    before = 0.0
    for each in noted["buckets"]:
        place = min(replica, len(each["ready"]) - 1)
        ready, end = each["ready"][place] - start, each["ended"][place] - start
        begin = min(end, max(ready, before))
        buckets.append(Bucket(each["bytes"], ready, begin, end))
        before = end
    return Step(start, noted["losses"][replica] - start, tuple(buckets), noted["end"] - start)


def predict_tail(ready: Sequence[float], sizes: Sequence[int], seconds_for_all: float) -> float:
    """Seconds of communication that stay after the backward pass, if it costs that pass nothing.

    Each bucket begins when it is ready and the one before has ended, and takes its part of
    `seconds_for_all` by its bytes.

    Args:
      ready: of each bucket, in their order, in a step that does not communicate.
      sizes: bytes of each.
      seconds_for_all: to sum all in one buffer.
    """
    total, end = sum(sizes), 0.0
    for at, size in zip(ready, sizes, strict=True):
        end = max(end, at) + seconds_for_all * size / total
    return end - max(ready)
