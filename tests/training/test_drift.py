"""One bit of one replica's copy of one variable is found and named; equal copies are not."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdp
from tests.training.faulty import dense, fit, flip_bit, rows
from tfdp.callbacks import DriftGuard
from tfdp.errors import DriftError
from tfdp.strategies.checksum import equal_variables, fold, replica_checksums
from tfdp.training.drift import odd_ones_out
from tfdp.training.incidents import IncidentLog, read_incidents

REPLICAS = 3


@pytest.fixture(scope="module")
def mirrored() -> Any:
    return tfdp.strategy("mirrored", devices=REPLICAS)


def checksum(values: Any) -> int:
    """Of a tensor on this process's first device."""
    variable = keras.Variable(values, dtype=values.dtype.name)
    ((number,),) = replica_checksums([variable], tf.distribute.get_strategy())
    return number


class Flip(keras.callbacks.Callback):
    """Changes a bit after one of the steps."""

    def __init__(self, find: Any, replica: int, *, step: int, **where: int) -> None:
        super().__init__()
        self.find, self.replica, self.step, self.where = find, replica, step, where

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch + 1 == self.step:
            flip_bit(self.model, self.find(self.model), self.replica, **self.where)


@pytest.fixture(scope="module")
def model(mirrored: Any) -> keras.Model:
    """Whoever changes a copy makes all equal again."""
    return dense(mirrored)


def make_equal(variable: Any) -> None:
    variable.assign(variable.numpy())


@pytest.mark.parametrize(
    "find",
    [lambda model: model.get_layer("first").kernel, lambda model: model.optimizer._velocities[2]],
)
def test_a_flipped_bit_is_named(model: keras.Model, tmp_path: Path, find: Any) -> None:
    """The lowest bit of the first number, in a run that is compared every 2 steps."""
    log = tmp_path / "incidents.jsonl"
    guard = DriftGuard(every_steps=2, incidents=IncidentLog(log))
    with pytest.raises(DriftError) as caught:
        fit(model, rows(), Flip(find, 1, step=6, element=0, bit=0), guard)
    make_equal(find(model))
    error = caught.value
    assert error.variable == find(model).path
    assert (error.replicas, error.step, error.equal_step) == ((1,), 6, 4)
    assert error.message == (
        f"the replicas have drifted apart at step 6 (epoch 1, step 6): {error.variable} is not the "
        "same on replica 1 as on the other 2. They were equal at step 4."
    )
    (incident,) = read_incidents(log)
    assert (incident.kind, incident.epoch, incident.step, incident.worker) == ("drift", 1, 6, 0)
    assert incident.details == {"variables": [error.variable], "replicas": [1], "equal_step": 4}


@pytest.mark.parametrize(("every_steps", "step", "epoch"), [(80, 8, 1), (81, 16, 2)])
def test_it_stays_until_it_is_looked_for(
    model: keras.Model, every_steps: int, step: int, epoch: int
) -> None:
    """All get the same updates, so the copies stay different; an epoch of 8 steps, or the end."""
    bias = model.get_layer("last").bias
    flip = Flip(lambda model: bias, 2, step=5, element=0, bit=21)
    with pytest.raises(DriftError, match=r"last/bias is not the same on replica 2") as caught:
        fit(model, rows(), flip, DriftGuard(every_steps), epochs=epoch)
    make_equal(bias)
    assert f"at step {step} (epoch {epoch}, step 8): " in caught.value.message
    assert (caught.value.step, caught.value.equal_step) == (step, 0)


def test_never_where_it_is_off(model: keras.Model) -> None:
    bias = model.get_layer("last").bias
    flip = Flip(lambda model: bias, 2, step=2, element=0, bit=3)
    fit(model, rows(24), flip, DriftGuard(every_steps=0), epochs=1)
    make_equal(bias)
    with pytest.raises(ValueError, match="every_steps must be at least 0, got -1"):
        DriftGuard(every_steps=-1)


def test_two_replicas_cannot_tell_which() -> None:
    strategy = tfdp.strategy("mirrored", devices=2)
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, name="wide")])
        model.compile("sgd", "mse")
    flip = Flip(lambda model: model.get_layer("wide").bias, 1, step=2, element=7, bit=31)
    with pytest.raises(DriftError, match="no majority to tell which of them is wrong") as caught:
        fit(model, rows(16), flip, DriftGuard(), epochs=1)
    assert caught.value.replicas == ()
    assert caught.value.variable.endswith("wide/bias")


@pytest.mark.parametrize("scaled", [False, True])
def test_equal_replicas_are_no_alarm(mirrored: Any, scaled: bool) -> None:
    """Moving averages and accumulation, or loss scaling; a last batch of one row for three."""

    def optimizer() -> keras.optimizers.Optimizer:
        adam = keras.optimizers.Adam(
            0.01, use_ema=True, ema_overwrite_frequency=3, gradient_accumulation_steps=2
        )
        if not scaled:
            return adam
        return keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(), initial_scale=2.0**30)

    keras.config.set_dtype_policy("mixed_float16" if scaled else "float32")
    try:
        model = dense(mirrored, optimizer, synchronized=scaled)
        guard = DriftGuard(every_steps=1)
        fit(model, rows(17), guard)
    finally:
        keras.config.set_dtype_policy("float32")
    assert guard.total_steps == 6
    assert guard._equal_step == 6
    paths = " ".join(variable.path for variable in equal_variables(model))
    for part in ("first/kernel", "norm/moving_variance", "seed_generator", "iteration"):
        assert part in paths
    assert "gradient_accumulator" not in paths, "each replica has a part of a sum"


DTYPES = ["float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 5, 8])
def test_every_single_change_counts(dtype: str, size: int) -> None:
    """Of each element; NaNs, signs of zero and the lowest bits among them."""
    rng = np.random.default_rng(size)
    numpy_type = tf.as_dtype(dtype).as_numpy_dtype
    start = np.asarray(rng.integers(0, 2, size), numpy_type)
    before = checksum(start)
    assert checksum(start.copy()) == before
    raw = start.view("uint8").reshape(size, -1)
    for element in range(size):
        for byte, bit in itertools.product(range(raw.shape[1]), (0, 7)):
            if dtype == "bool":
                changed = start.copy()
                changed[element] = not changed[element]
            else:
                bits = raw.copy()
                bits[element, byte] ^= 1 << bit
                changed = bits.reshape(-1).view(numpy_type)
            assert checksum(changed) != before


def test_swapped_values_count() -> None:
    powers = 2.0 ** np.arange(-8, 8, dtype="float32")
    seen = {checksum(powers)}
    for a, b in itertools.combinations(range(16), 2):
        swapped = powers.copy()
        swapped[[a, b]] = swapped[[b, a]]
        seen.add(checksum(swapped))
    assert len(seen) == 1 + 16 * 15 // 2


@pytest.mark.parametrize("count", [15, 4096 * 2 * 3 + 17])
def test_the_checksum_is_what_numpy_computes(count: int) -> None:
    """Words of two float32 each, in rows of 4096."""
    values = np.random.default_rng(0).normal(size=count).astype("float32")
    words = np.append(values, np.float32(0)).view("uint64")
    golden, mix, columns = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), 4096
    words ^= words >> np.uint64(32)
    of_column = np.arange(1, columns + 1, dtype="uint64") * golden
    of_column = (of_column ^ (of_column >> np.uint64(30))) * mix
    of_column = (of_column ^ (of_column >> np.uint64(27))) | np.uint64(1)
    of_row = np.arange(1, len(words) // columns + 2, dtype="uint64") * golden
    of_row = ((of_row ^ (of_row >> np.uint64(32))) * mix) | np.uint64(1)
    place = np.arange(len(words))
    products = words * of_column[place % columns] * of_row[place // columns]
    assert checksum(values) % 2**64 == int(products.sum(dtype="uint64"))


def test_folding_keeps_order_and_range() -> None:
    assert fold([1, 2]) != fold([2, 1])
    assert all(-(2**63) <= fold([n, -n]) < 2**63 for n in range(-50, 50))
    assert len({fold([n, 0, 0]) for n in range(-50, 50)}) == 100


@pytest.mark.parametrize(
    ("checksums", "odd"),
    [([1, 1, 2], (2,)), ([3, 1, 1, 2, 1], (0, 3)), ([1, 2], ()), ([1, 1, 2, 2], ()), ([5], ())],
)
def test_the_majority(checksums: list[int], odd: tuple[int, ...]) -> None:
    assert odd_ones_out(checksums) == odd
