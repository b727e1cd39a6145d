"""Lets all workers do something after the same step, when one of them asks for it.

A worker that is told to stop cannot stop by itself: the others would wait for it in the next step
for ever. It also must not ask in every step, which would cost a message each time. The workers are
in lockstep, so this is enough, and costs nothing until somebody asks:

1. the worker that asks has finished step `s`; it says "after `s + 1`" to the cluster's coordination
   service, which keeps the first answer if two ask at once;
2. a thread in each worker hears that and acknowledges;
3. the worker that asked enters step `s + 1` only when all have acknowledged. No other can finish
   that step without it, so every worker knows in time.

TensorFlow's `PreemptionCheckpointHandler` agrees in the same way.
"""

from __future__ import annotations

import itertools
import threading

import tensorflow as tf

from tfdp.strategies.keras_compat import tensorflow_parts as tfp

_ACKNOWLEDGE_SECONDS = 30.0
_numbers = itertools.count()


class Agreement:
    """Something that all workers do together, as often as one of them asks for it.

    Args:
      topic: what is agreed on. All workers make their agreements in the same order.
      worker: index of this one.
      workers: how many there are.
    """

    def __init__(self, topic: str, worker: int, workers: int) -> None:
        self._key = f"tfdp/{next(_numbers)}/{topic}"
        self._worker = worker
        self._workers = workers
        self._round = 0
        self._asked = False
        self._after: int | None = None
        self._heard = threading.Event()
        self._begin()

    def ask(self) -> None:
        """Wants it done as soon as all workers can; this worker alone need call it."""
        self._asked = True

    def is_due(self, step: int) -> bool:
        """Whether it is to be done now; all workers call it after each step.

        Args:
          step: a count of the calls, the same on all workers.
        """
        if self._asked and self._after is None:
            self._announce(step + 1)
        if self._after is None or step < self._after:
            return False
        self._round, self._asked, self._after = self._round + 1, False, None
        self._begin()
        return True

    def _begin(self) -> None:
        self._heard = threading.Event()
        if self._workers > 1:
            threading.Thread(
                target=self._listen,
                args=(f"{self._key}/{self._round}", self._heard),
                name="agreement",
                daemon=True,
            ).start()

    def _listen(self, key: str, heard: threading.Event) -> None:
        try:
            self._after = int(tfp.wait_for_cluster_value(key))
            tfp.set_cluster_value(f"{key}/heard-by-{self._worker}", "yes")
        except tf.errors.OpError:
            return  # the cluster has ended, and with it the wish
        finally:
            heard.set()

    def _announce(self, step: int) -> None:
        if self._workers == 1:
            self._after = step - 1  # nobody else has to come along
            return
        key = f"{self._key}/{self._round}"
        try:
            tfp.set_cluster_value(key, str(step))
            for worker in range(self._workers):
                tfp.wait_for_cluster_value(f"{key}/heard-by-{worker}", _ACKNOWLEDGE_SECONDS)
        except tf.errors.OpError:
            return  # a worker is gone: the next step fails, and says so
        self._heard.wait(_ACKNOWLEDGE_SECONDS)
