"""A NaN is found in the step, on the replica and in the tensor where it was put."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdp
from tests.training.faulty import BATCH, dense, fit, rooted, rows
from tfdp.callbacks import FiniteGuard
from tfdp.errors import NotFiniteError
from tfdp.strategies.recorder import Seen
from tfdp.training.incidents import IncidentLog, read_incidents
from tfdp.training.nonfinite import Find, first_find

REPLICAS = 3
STEP, ROW = 6, 4  # the step, from 1, and the row in its batch of 3 + 3 + 2: replica 1


@pytest.fixture(scope="module")
def mirrored() -> Any:
    return tfdp.strategy("mirrored", devices=REPLICAS)


@pytest.fixture(scope="module")
def single() -> Any:
    return tfdp.strategy("single")


def with_value(value: float, *, row: int = (STEP - 1) * BATCH + ROW) -> Any:
    x, y = rows()
    x[row, 0] = value
    return x, y


def scaled(scale: float) -> keras.optimizers.Optimizer:
    inner = keras.optimizers.SGD(0.01)
    return keras.optimizers.LossScaleOptimizer(inner, initial_scale=scale)


def found(model: keras.Model, data: Any, guard: FiniteGuard, **given: Any) -> NotFiniteError:
    with pytest.raises(NotFiniteError) as caught:
        fit(model, data, guard, **given)
    return caught.value


@pytest.fixture(scope="module")
def built(mirrored: Any) -> dict[str, keras.Model]:
    models = {"rooted": rooted(mirrored), "dense": dense(mirrored)}
    for model in models.values():
        with mirrored.scope():
            model.optimizer.build(model.trainable_variables)
    return models


@pytest.fixture
def fresh(built: dict[str, keras.Model]) -> Any:
    """Models that keep what TensorFlow has traced; their variables are put back afterwards."""
    variables = [
        v for model in built.values() for v in (*model.variables, *model.metrics_variables)
    ]
    for model in built.values():
        variables += model.optimizer.variables
    start = [variable.numpy() for variable in variables]
    yield built
    for variable, value in zip(variables, start, strict=True):
        variable.assign(value)


def test_an_input_that_is_no_number(fresh: Any, tmp_path: Path) -> None:
    log = IncidentLog(tmp_path / "incidents.jsonl")
    error = found(fresh["dense"], with_value(np.nan), FiniteGuard(incidents=log))
    assert (error.epoch, error.step, error.step_in_epoch) == (1, STEP, STEP - 1)
    assert (error.replica, error.worker, error.what) == (1, 0, "loss")
    assert str(error).startswith(
        "step 6 (epoch 1, step 6), on replica 1: the loss is not finite, and neither are the "
        "gradients, the first of them that of sequential"
    )
    assert error.tensor is not None
    assert error.tensor.endswith("first/kernel")
    (incident,) = read_incidents(tmp_path / "incidents.jsonl")
    assert (incident.kind, incident.epoch, incident.step, incident.worker) == (
        "not_finite",
        1,
        STEP,
        0,
    )
    assert incident.details == {
        "what": "loss",
        "step_in_epoch": STEP - 1,
        "replicas": [1],
        "tensor": error.tensor,
    }


@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_gradient_alone(mirrored: Any, fresh: Any, accumulation: int) -> None:
    """The logged loss is NaN only after the update; the step is the one before."""
    model = fresh["rooted"]
    if accumulation > 1:
        model = rooted(
            mirrored,
            lambda: keras.optimizers.SGD(gradient_accumulation_steps=accumulation, clipnorm=1.0),
            steps_per_execution=4,
        )
    error = found(model, with_value(0.0), FiniteGuard())
    assert (error.step, error.step_in_epoch, error.replica) == (STEP, STEP - 1, 1)
    assert (error.what, error.tensor) == ("gradient", model.layers[0].scale.path)
    assert "on replica 1: the gradient of " in error.message
    assert "/scale is not finite, and the loss is." in error.message


def test_a_gradient_of_the_last_batch_is_found_at_the_end_of_the_epoch(fresh: Any) -> None:
    error = found(fresh["rooted"], with_value(0.0, row=63), FiniteGuard(), epochs=1)
    assert (error.step, error.replica, error.what) == (8, 2, "gradient")


def test_one_device(single: Any) -> None:
    for model in (rooted(single, jit_compile=False), rooted(single, steps_per_execution=4)):
        error = found(model, with_value(0.0), FiniteGuard())
        assert (error.step, error.replica, error.worker) == (STEP, None, None)
        assert error.tensor == model.layers[0].scale.path


def test_xla_on_one_device(single: Any) -> None:
    error = found(rooted(single, jit_compile=True), with_value(0.0), FiniteGuard())
    assert (error.step, error.what) == (STEP, "gradient")


def test_a_script_without_a_strategy() -> None:
    model = rooted(tf.distribute.get_strategy())
    error = found(model, with_value(0.0), FiniteGuard())
    assert (error.step, error.what, error.replica) == (STEP, "gradient", None)


def test_without_looking_at_gradients(mirrored: Any) -> None:
    """A gradient alone shows in the next loss; a loss's replica is known all the same."""
    model = rooted(mirrored)
    error = found(model, with_value(-1.0), FiniteGuard(gradients=False), epochs=1)
    assert (error.step, error.replica, error.tensor, error.what) == (STEP, 1, None, "loss")
    assert "the loss itself is not finite" in error.message
    model.set_weights([np.zeros(1), np.ones(1)])
    later = found(model, with_value(0.0), FiniteGuard(gradients=False))
    assert (later.step, later.tensor) == (STEP + 1, None)


def test_a_later_epoch(fresh: Any) -> None:
    guard = FiniteGuard(finished_steps=16)
    error = found(fresh["rooted"], with_value(0.0), guard, initial_epoch=2, epochs=4)
    assert (error.epoch, error.step, error.step_in_epoch) == (3, 16 + STEP, STEP - 1)


def test_a_guard_is_as_new_in_the_next_fit(fresh: Any) -> None:
    model, guard = fresh["rooted"], FiniteGuard()
    start = model.get_weights()
    found(model, with_value(0.0), guard)
    model.set_weights(start)
    fit(model, rows(), guard, epochs=1)
    assert np.isfinite(model.get_weights()).all()


def test_batches_that_leave_replicas_empty_are_no_alarm(fresh: Any) -> None:
    """Nine rows in batches of 8 leave one row for three replicas."""
    guard = FiniteGuard()
    fit(fresh["dense"], rows(9), guard)
    assert guard.total_steps == 4


def test_loss_scaling_overflows_without_an_alarm(mirrored: Any, single: Any) -> None:
    keras.config.set_dtype_policy("mixed_float16")
    try:
        for strategy in (mirrored, single):
            model = dense(strategy, lambda: scaled(2.0**40))
            fit(model, rows(), FiniteGuard())
            assert float(model.optimizer.dynamic_scale) < 2.0**40, "it has overflowed"
            error = found(model, with_value(np.nan), FiniteGuard())
            assert (error.what, error.step, error.tensor) == ("loss", STEP, None)
            assert error.replica == (1 if strategy is mirrored else None)
    finally:
        keras.config.set_dtype_policy("float32")


def test_loss_scaling_that_never_gets_anywhere(single: Any) -> None:
    model = rooted(single, lambda: scaled(1e-3))
    x, y = rows(12 * BATCH)
    x[:, 0] = 0.0
    error = found(model, (x, y), FiniteGuard())
    assert error.what == "gradient"
    assert "not finite in any step; the loss scale is 2e-07" in error.message


def test_a_model_that_is_to_be_saved(fresh: Any) -> None:
    model, guard = fresh["dense"], FiniteGuard()
    fit(model, rows(16), guard, epochs=1)
    guard.check()
    for variable in (model.optimizer.variables[3], model.get_layer("norm").moving_variance):
        value = variable.numpy()
        value.flat[-1] = -np.inf
        variable.assign(value)
        message = rf"step 2 .*: {variable.path} is not finite"
        with pytest.raises(NotFiniteError, match=message) as caught:
            guard.check()
        assert (caught.value.what, caught.value.tensor) == ("weight", variable.path)


def test_finite_numbers_whose_sum_is_not_are_no_alarm(single: Any) -> None:
    """Gradients of 3e38 each."""
    with single.scope():
        layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
        model = keras.Sequential([keras.Input((4,)), layer])
        model.compile(keras.optimizers.SGD(0.0), loss=lambda y, out: keras.ops.mean(out) * 3e38)
    guard = FiniteGuard()
    fit(model, (np.full((8, 4), 0.99, "float32"), np.zeros((8, 1))), guard, epochs=1)
    assert guard.total_steps == 1


CLEAN = Seen(9, 0, 0, 0)


@pytest.mark.parametrize(
    ("everyone", "expected"),
    [
        ([CLEAN, CLEAN], None),
        ([CLEAN, Seen(9, 5, 2, 0)], Find(5, (1,), False, 2)),
        # the update has carried the NaN to everybody's next step
        ([Seen(9, 6, 0, 6), Seen(9, 5, 2, 6)], Find(5, (1,), False, 2)),
        ([Seen(9, 5, 3, 0), Seen(9, 5, 1, 5)], Find(5, (0, 1), True, 1)),
        ([Seen(9, 0, 0, 7), Seen(9, 8, 0, 0)], Find(7, (0,), True, None)),
    ],
)
def test_the_first_of_several(everyone: list[Seen], expected: Find | None) -> None:
    assert first_find(everyone) == expected
