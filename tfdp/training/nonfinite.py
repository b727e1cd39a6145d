"""Stops a run whose numbers are no longer finite, and says where it began."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfdp.errors import NotFiniteError
from tfdp.strategies.keras_compat import install
from tfdp.strategies.recorder import Seen, attach_recorder
from tfdp.strategies.state import first_not_finite, state_variables
from tfdp.training.incidents import IncidentLog
from tfdp.training.position import PositionCallback, name_replicas

_GO_BACK = (
    "With training.on_not_finite.action: skip_batch or lower_rate a run goes back to its last good "
    "checkpoint and on from there by itself."
)
_LOSS_HINT = (
    "Look at the inputs, labels and sample weights of that batch, and for a log, a root or a "
    f"division of 0 in the model or the loss; or try a smaller optimizer.learning_rate. {_GO_BACK}"
)
_GRADIENT_HINT = (
    "Try a smaller optimizer.learning_rate or optimizer.arguments.global_clipnorm, and look for a "
    f"root or a norm of 0, whose gradient is not finite. {_GO_BACK}"
)

LEAST_LOSS_SCALE = 1e-6
"""Loss scaling halves the scale wherever gradients overflow; this far below 1 they are NaN."""


@dataclass(frozen=True)
class Find:
    """What was not finite first.

    Attributes:
      step: as the recorders count, from 1 since they were reset.
      replicas: that had it in that step, counted over all workers.
      loss: whether the loss of one of them was not finite.
      tensor: index of the first gradient, or None where the gradients were finite or not looked at.
    """

    step: int
    replicas: tuple[int, ...]
    loss: bool
    tensor: int | None


def first_find(everyone: Sequence[Seen]) -> Find | None:
    """The first thing that the recorders of all replicas have seen, or None."""
    steps = [step for seen in everyone for step in (seen.gradient, seen.loss) if step]
    if not steps:
        return None
    first = min(steps)
    tensors = [seen.tensor for seen in everyone if seen.gradient == first]
    return Find(
        first,
        tuple(r for r, seen in enumerate(everyone) if first in (seen.gradient, seen.loss)),
        any(seen.loss == first for seen in everyone),
        min(tensors, default=None),
    )


class FiniteGuard(PositionCallback):
    """Stops `fit` where the loss, a gradient or a weight is NaN or infinite.

    Each step keeps, on each replica, whether its own loss and gradients were finite. That is read
    when the logged loss is not finite, and after each epoch. Under loss scaling (mixed_float16)
    gradients overflow now and then by design, so only loss and weights are looked at.

    Args:
      gradients: whether to look at gradients too; the README says what it costs.
      incidents: where to write what was found; None in all processes but one.
      finished_steps: see `PositionCallback`.
      finished_steps_in_epoch: see `PositionCallback`.

    Raises:
      NotFiniteError: by `fit`, on all workers alike.
    """

    def __init__(
        self,
        *,
        gradients: bool = True,
        incidents: IncidentLog | None = None,
        finished_steps: int = 0,
        finished_steps_in_epoch: int = 0,
    ) -> None:
        super().__init__(
            finished_steps=finished_steps, finished_steps_in_epoch=finished_steps_in_epoch
        )
        self.gradients = gradients
        self.incidents = incidents
        self._counted = 0
        self._begun = 0

    def set_model(self, model: Any) -> None:
        super().set_model(model)
        install()
        self._recorder = attach_recorder(model, gradients=self.gradients)
        self._counted = 0

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self._begun = self.step_in_epoch
        self._counted = self._recorder.seen()[0].steps

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        super().on_train_batch_end(batch, logs)
        # Every worker logs the same loss, so all come to the collective or none does.
        loss = float((logs or {}).get("loss", 0.0))
        if not math.isfinite(loss):
            self._raise_what_was_seen()
            raise self._error(f"the loss itself is not finite ({loss})", "loss", _LOSS_HINT)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        self.check()

    def check(self) -> None:
        """Looks now: to be called before a model is saved as good, by all workers together.

        Raises:
          NotFiniteError: on all workers, if a loss or gradient was not finite since `fit` began,
            or a weight or a number of the optimizer is not.
        """
        self._raise_what_was_seen()
        scale = getattr(self.model.optimizer, "dynamic_scale", None)
        if scale is not None and float(scale) < LEAST_LOSS_SCALE:
            text = f"the gradients are not finite in any step; the loss scale is {float(scale):.0e}"
            raise self._error(text, "gradient", _GRADIENT_HINT)
        place = first_not_finite(self.model)
        places = self._gather([-1 if place is None else place])
        found = [(place, worker) for worker, (place,) in enumerate(places) if place >= 0]
        if found:
            place, worker = min(found)
            path = state_variables(self.model)[place].path
            find = Find(0, (worker * self._recorder.replicas,), False, None)
            raise self._error(f"{path} is not finite", "weight", _GRADIENT_HINT, find, path)

    def _raise_what_was_seen(self) -> None:
        """Raises what the recorders of all replicas say, if they say anything; a collective."""
        own = self._recorder.seen()
        workers = self._gather([number for seen in own for number in seen])
        size = len(Seen._fields)
        everyone = [Seen(*w[i : i + size]) for w in workers for i in range(0, len(w), size)]
        find = first_find(everyone)
        if find is None:
            return
        self._go_back(own[0].steps - find.step, own[0].steps)
        if find.tensor is None:
            raise self._error("the loss itself is not finite", "loss", _LOSS_HINT, find)
        path = self.model.optimizer._trainable_variables[find.tensor].path
        if find.loss:
            text = "the loss is not finite, and neither are the gradients, the first of them that "
            raise self._error(f"{text}of {path}", "loss", _LOSS_HINT, find, path)
        text = f"the gradient of {path} is not finite, and the loss is"
        raise self._error(text, "gradient", _GRADIENT_HINT, find, path)

    def _gather(self, numbers: Sequence[int]) -> list[list[int]]:
        gather = getattr(self.model.distribute_strategy, "tfdp_gather_numbers", None)
        return [list(numbers)] if gather is None else gather(numbers)

    def _go_back(self, counts: int, counted: int) -> None:
        """Sets the position to where it was `counts` counts of the recorder ago.

        A `train_step` of one's own may update several times; then several counts are one step.

        Args:
          counts: how many.
          counted: the recorder's count now.
        """
        each = max(1, round((counted - self._counted) / max(1, self.step_in_epoch - self._begun)))
        self.go_to_step(max(1, self.step_in_epoch - counts // each))

    def _error(
        self, text: str, what: str, hint: str, find: Find | None = None, tensor: str | None = None
    ) -> NotFiniteError:
        total, local = self.model.distribute_strategy.num_replicas_in_sync, self._recorder.replicas
        replicas = find.replicas if find is not None and total > 1 else ()
        where = f", on {name_replicas(replicas, local, total)}" if replicas else ""
        error = NotFiniteError(
            f"{self.place}{where}: {text}.",
            hint=hint,
            what=what,
            epoch=self.epoch,
            step=self.total_steps,
            step_in_epoch=self.step_in_epoch - 1,
            replica=replicas[0] if replicas else None,
            worker=replicas[0] // local if replicas else None,
            tensor=tensor,
        )
        if self.incidents is not None:
            self.incidents.append(
                "not_finite",
                epoch=error.epoch,
                step=error.step,
                worker=error.worker,
                what=what,
                step_in_epoch=error.step_in_epoch,
                replicas=list(replicas),
                tensor=tensor,
            )
        return error
