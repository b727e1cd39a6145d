"""When a checkpoint is due; what is saved then is another matter.

This module does not load TensorFlow.
"""

from __future__ import annotations

import math

from tfdp.errors import ConfigError


class SaveTriggers:
    """By epochs, by steps, by minutes.

    Args:
      every_epochs: epochs from one checkpoint to the next; 0: none.
      every_steps: steps; 0: none.
      every_minutes: minutes; 0: none.

    Raises:
      ConfigError: a number is negative or no number.
    """

    def __init__(self, every_epochs: int, every_steps: int, every_minutes: float) -> None:
        for name, value in (
            ("every_epochs", every_epochs),
            ("every_steps", every_steps),
            ("every_minutes", every_minutes),
        ):
            if not 0 <= value < math.inf:
                raise ConfigError(f"{name} is {value}; it must be 0 (never) or more.")
        self._epochs = every_epochs
        self._steps = every_steps
        self._seconds = 60.0 * every_minutes
        self._saved_steps = 0
        self._saved_at = 0.0

    @property
    def any(self) -> bool:
        """Whether anything is ever saved."""
        return bool(self._epochs or self._steps or self._seconds)

    @property
    def wants_minutes(self) -> bool:
        """Whether time counts. Clocks differ, so one worker has to decide for all."""
        return bool(self._seconds)

    def begin(self, total_steps: int, now: float) -> None:
        """The run begins, or goes on, with the state that was saved last."""
        self.saved(total_steps, now)

    def saved(self, total_steps: int, now: float) -> None:
        """A checkpoint was made."""
        self._saved_steps, self._saved_at = total_steps, now

    def after_steps(self, total_steps: int) -> bool:
        """Whether a multiple of `every_steps` was reached, or passed, since the last checkpoint."""
        if not self._steps:
            return False
        return total_steps // self._steps > self._saved_steps // self._steps

    def after_minutes(self, now: float) -> bool:
        """Whether `every_minutes` have passed since the last checkpoint."""
        return bool(self._seconds) and now - self._saved_at >= self._seconds

    def at_epoch_end(self, epochs: int, last: bool) -> bool:
        """Whether one is due when `epochs` epochs are finished; after the last one it always is.

        Args:
          epochs: finished.
          last: whether training ends here.
        """
        if last:
            return self.any
        return bool(self._epochs) and epochs % self._epochs == 0
