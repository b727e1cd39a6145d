"""Section ``training``: how long, in which precision, how compiled."""

from __future__ import annotations

from dataclasses import dataclass

from tfdp.config.checks import at_least, less_than, more_than, not_blank, one_of
from tfdp.config.names import MIXED_PRECISION, NOT_FINITE_ACTIONS
from tfdp.config.section import Section, setting


@dataclass(frozen=True, kw_only=True)
class NotFiniteConfig(Section):
    """What to do when the loss or a gradient is NaN or infinite."""

    action: str = setting(
        "stop; or go back to the last good checkpoint and leave the batch out (skip_batch) or go "
        "on at a lower learning rate (lower_rate).",
        one_of(NOT_FINITE_ACTIONS, what="action"),
        default="stop",
    )
    rate_factor: float = setting(
        "What lower_rate multiplies the learning rate by.",
        more_than(0),
        less_than(1),
        default=0.5,
    )
    max_rollbacks: int = setting(
        "How often a run may go back; then it stops.", at_least(1), default=3
    )


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Section):
    """How long to train, in which precision, and how the step is compiled."""

    epochs: int = setting(
        "Passes over the training examples; 0 trains nothing, but checks all the rest.",
        at_least(0),
        default=1,
    )
    seed: int = setting(
        "Seed of the initial weights and of random layers.",
        at_least(0),
        less_than(2**31),
        default=0,
    )
    loss: str = setting(
        "Keras loss by name. A model that its function has compiled keeps its own.",
        not_blank,
        default="sparse_categorical_crossentropy",
    )
    metrics: tuple[str, ...] = setting(
        "Keras metrics by name. A model that its function has compiled keeps its own.",
        default=("accuracy",),
    )
    steps_per_epoch: int | None = setting(
        "Steps that make an epoch; null: until the examples are used up.",
        at_least(1),
        default=None,
    )
    steps_per_execution: int = setting(
        "Steps that run in one call into TensorFlow.", at_least(1), default=1
    )
    mixed_precision: str = setting(
        f"Compute in 16 bits, variables in float32. One of {', '.join(MIXED_PRECISION)}.",
        one_of(MIXED_PRECISION, what="mixed_precision"),
        default="none",
    )
    jit_compile: bool = setting("Compile the step with XLA.", default=False)
    deterministic: bool = setting(
        "Only deterministic TensorFlow kernels: repeats to the bit, slower.", default=False
    )
    check_gradients: bool = setting(
        "Look at every replica's gradients in each step, to name the first that is not finite.",
        default=True,
    )
    check_replicas_every_steps: int = setting(
        "Steps from one comparison of all replicas' variables to the next; one more after an epoch "
        "of a tenth of that, and at the end. 0: never.",
        at_least(0),
        default=1000,
    )
    on_not_finite: NotFiniteConfig = setting(
        "What to do when the loss or a gradient is not finite.", default=NotFiniteConfig
    )
