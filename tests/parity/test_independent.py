"""What several replicas train, against NumPy: no Keras, no TensorFlow in the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.parity.cases.linear import BATCH, DECAY, EPOCHS, KERNEL, MOMENTUM, RATE, WEIGHTS, X, Y
from tests.parity.groups import Group

pytestmark = pytest.mark.multi_process

DEADLINE_SECONDS = 300
REPLICAS = (2, 3)
TOLERANCE = 1e-13

Gradients = list[np.ndarray]


@dataclass
class Descent:
    """Gradient descent on `sum(w * (x @ kernel + bias - y)**2) / divisor`.

    Attributes:
        weight: of each row.
        divisor: of a batch with these weights.
        update: changes `parameters` in place, given the gradients and the number of the step.
    """

    update: Callable[[Gradients, Gradients, int], None]
    weight: np.ndarray = field(default_factory=lambda: np.ones(len(X)))
    divisor: Callable[[np.ndarray], float] = len

    def run(self) -> tuple[Gradients, list[float]]:
        """Kernel and bias in the end, and the mean loss of each epoch."""
        parameters: Gradients = [KERNEL.copy(), np.zeros(1)]
        losses = []
        step = 0
        for _ in range(EPOCHS):
            total = 0.0
            for x, y, w in self._batches():
                error = x @ parameters[0] + parameters[1] - y
                divisor = self.divisor(w)
                total += len(x) * float(np.sum(w * error**2)) / divisor
                slope = 2 * w * error / divisor
                self.update(parameters, [x.T @ slope, slope.sum(axis=0)], step)
                step += 1
            losses.append(total / len(X))
        return parameters, losses

    def _batches(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        for start in range(0, len(X), BATCH):
            part = slice(start, start + BATCH)
            yield X[part], Y[part], self.weight[part, None]


def plain(rate: float = RATE) -> Callable[[Gradients, Gradients, int], None]:
    def update(parameters: Gradients, gradients: Gradients, step: int) -> None:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter -= rate * gradient

    return update


def clipped(limit: float, *, together: bool) -> Callable[[Gradients, Gradients, int], None]:
    def update(parameters: Gradients, gradients: Gradients, step: int) -> None:
        norms = [np.sqrt(np.sum(gradient**2)) for gradient in gradients]
        if together:
            norms = [np.sqrt(sum(norm**2 for norm in norms))] * len(norms)
        scaled = [
            gradient * min(1.0, limit / norm)
            for gradient, norm in zip(gradients, norms, strict=True)
        ]
        plain()(parameters, scaled, step)

    return update


def momentum_and_decay(momentum: float, decay: float) -> Callable[..., None]:
    speed: Gradients = [np.zeros_like(KERNEL), np.zeros(1)]

    def update(parameters: Gradients, gradients: Gradients, step: int) -> None:
        for i, gradient in enumerate(gradients):
            speed[i] = momentum * speed[i] - RATE * gradient
            parameters[i] -= RATE * decay * parameters[i]
            parameters[i] += speed[i]

    return update


def accumulated(steps: int) -> Callable[[Gradients, Gradients, int], None]:
    kept: list[Gradients] = []

    def update(parameters: Gradients, gradients: Gradients, step: int) -> None:
        kept.append(gradients)
        if len(kept) == steps:
            plain()(parameters, [sum(parts) / steps for parts in zip(*kept, strict=True)], step)
            kept.clear()

    return update


ANSWERS: dict[str, Callable[[], Descent]] = {
    "linear_sgd": lambda: Descent(plain()),
    "linear_sum": lambda: Descent(plain(RATE / 10), divisor=lambda w: 1.0),
    "linear_weighted": lambda: Descent(plain(), WEIGHTS),
    "linear_weighted_mean": lambda: Descent(plain(), WEIGHTS, np.sum),
    "linear_clipnorm": lambda: Descent(clipped(0.5, together=False)),
    "linear_global_clipnorm": lambda: Descent(clipped(0.5, together=True)),
    "linear_momentum_decay": lambda: Descent(momentum_and_decay(MOMENTUM, DECAY)),
    "linear_accumulation": lambda: Descent(accumulated(2)),
}


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Group:
    """All of them, on two and three replicas."""
    wanted = [f"{count}:{name}" for count in REPLICAS for name in [*ANSWERS, "linear_batch_norm"]]
    group = Group(
        "mirrored",
        wanted,
        tmp_path_factory.mktemp("independent"),
        devices=max(REPLICAS),
        deadline_seconds=DEADLINE_SECONDS,
    )
    group.run()
    return group


@pytest.mark.parametrize("count", REPLICAS)
@pytest.mark.parametrize("name", ANSWERS)
def test_training_is_what_numpy_computes(name: str, count: int, group: Group) -> None:
    (kernel, bias), losses = ANSWERS[name]().run()
    result = group.result(count, name)
    np.testing.assert_allclose(result["kernel"], kernel, rtol=TOLERANCE)
    np.testing.assert_allclose(result["bias"], bias, rtol=TOLERANCE)
    np.testing.assert_allclose(result["loss"], losses, rtol=TOLERANCE)


@pytest.mark.parametrize("count", REPLICAS)
def test_synchronized_statistics_are_those_of_the_whole_batch(count: int, group: Group) -> None:
    mean, variance = np.zeros(2), np.ones(2)
    for _ in range(EPOCHS):
        for start in range(0, len(X), BATCH):
            batch = X[start : start + BATCH]
            mean = 0.9 * mean + 0.1 * batch.mean(axis=0)
            variance = 0.9 * variance + 0.1 * batch.var(axis=0)
    result = group.result(count, "linear_batch_norm")
    np.testing.assert_allclose(result["moving_mean"], mean, rtol=TOLERANCE)
    np.testing.assert_allclose(result["moving_variance"], variance, rtol=TOLERANCE)


def test_the_cases_tell_wrong_weights_of_batches_from_right_ones() -> None:
    """The clip is active and the uneven batch matters, or the tests above would prove little."""
    exact, _ = Descent(plain()).run()
    for name in set(ANSWERS) - {"linear_sgd"}:
        other, _ = ANSWERS[name]().run()
        assert np.max(np.abs(exact[0] - other[0])) > 1e-3, name
