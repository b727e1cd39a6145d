"""How far a run has come.

This module does not load TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes:
      epochs: epochs finished, validation and callbacks included.
      step: steps of the next epoch that are finished.
      total_steps: steps finished, over all epochs.
      history: value of every metric after each finished epoch.
      left_out: steps that are not trained on, as (epoch, step in it), both from 0.
      stopped: a callback, such as `EarlyStopping`, has ended the training.
      rollbacks: how often the run went back to a checkpoint because numbers were not finite.
    """

    epochs: int = 0
    step: int = 0
    total_steps: int = 0
    history: Mapping[str, list[float]] = field(default_factory=dict)
    left_out: frozenset[tuple[int, int]] = frozenset()
    stopped: bool = False
    rollbacks: int = 0

    def describe(self) -> str:
        """As in ``step 120 (epoch 3, step 20)``."""
        return f"step {self.total_steps} (epoch {self.epochs + 1}, step {self.step})"
