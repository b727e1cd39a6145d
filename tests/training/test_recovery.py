"""A run whose numbers are no longer finite goes back, and on without what made them so."""

from __future__ import annotations

import importlib
import io
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from rich.console import Console

from tests.training.configs import MODULE, make_config
from tfdp.errors import ConfigError, NotFiniteError
from tfdp.training import TrainResult, train
from tfdp.training.incidents import read_incidents
from tfdp.training.metrics_log import read_metrics

# Batch 1 of three has a row whose loss is not finite; everything is in the order of the rows.
POISONED: dict[str, Any] = {
    "data__function": "poisoned",
    "data__shuffle": False,
    "model__function": "regression",
    "optimizer": {"name": "adam", "learning_rate": 0.01},
    "training__loss": "mean_squared_error",
    "training__metrics": [],
}


def run(folder: Path, **changes: Any) -> TrainResult:
    return train(make_config(folder, **changes), console=Console(file=io.StringIO(), width=100))


def kinds(result_or_root: Path) -> list[str]:
    return [incident.kind for incident in read_incidents(result_or_root / "incidents.jsonl")]


@pytest.mark.parametrize("replicas", [1, 3])
def test_the_batch_is_left_out(tmp_path: Path, replicas: int) -> None:
    """As a loop of plain Keras over the other batches."""
    result = run(
        tmp_path,
        **POISONED,
        strategy__kind="mirrored" if replicas > 1 else "single",
        **({"strategy__devices": replicas} if replicas > 1 else {}),
        training__on_not_finite={"action": "skip_batch"},
        output__checkpoints={"every_steps": 1},
    )
    functions = importlib.import_module(MODULE)
    x, y = functions.poisoned()
    keras.utils.set_random_seed(1)
    model = functions.regression()
    model.compile(keras.optimizers.Adam(0.01), "mean_squared_error")
    for _ in range(2):
        for first in (0, 16):
            model.train_on_batch(x[first : first + 8], y[first : first + 8])
    trained = keras.saving.load_model(result.run_directory / "model.keras")
    for mine, theirs in zip(trained.variables, model.variables, strict=True):
        np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=1e-5, atol=1e-7)
    once = ["not_finite", "resumed", "rollback", "skipped_batch"]
    assert kinds(result.run_directory) == once * 2
    skipped = read_incidents(result.run_directory / "incidents.jsonl")[3::4]
    places = [(each.details["batch_epoch"], each.details["step_in_epoch"]) for each in skipped]
    assert places == [(1, 1), (2, 1)]
    records = read_metrics(result.run_directory / "metrics.jsonl")
    assert [record["epoch"] for record in records] == [1, 2]
    assert all(np.isfinite(record["loss"]) for record in records)


@pytest.mark.parametrize(
    ("factor", "rate", "checkpoints"),
    [
        (1e-32, 1e-2, ["step-00000000.npz"]),
        # At 1e14 the weights of step 2 are finite, and lost: the third time it goes further back.
        (1e-16, 1e-18, ["step-00000000.npz", "step-00000002.npz", "step-00000000.npz"]),
    ],
)
def test_the_rate_is_lowered_until_it_is_low_enough(
    tmp_path: Path, factor: float, rate: float, checkpoints: list[str]
) -> None:
    result = run(
        tmp_path,
        data__function="line",
        model__function="regression",
        optimizer={"name": "sgd", "learning_rate": 1e30},
        training__loss="mean_squared_error",
        training__metrics=[],
        training__on_not_finite={"action": "lower_rate", "rate_factor": factor},
        output__checkpoints={"every_steps": 2},
    )
    model = keras.saving.load_model(result.run_directory / "model.keras")
    assert float(model.optimizer.learning_rate) == pytest.approx(rate, rel=1e-5)
    incidents = read_incidents(result.run_directory / "incidents.jsonl")
    found = [each.details["checkpoint"] for each in incidents if each.kind == "rollback"]
    assert found == checkpoints
    assert result.history["loss"][-1] < 10


def test_a_run_goes_back_a_bounded_number_of_times(tmp_path: Path) -> None:
    with pytest.raises(NotFiniteError, match=r"has gone back 1 times already") as caught:
        run(
            tmp_path,
            **POISONED,
            training__on_not_finite={"action": "lower_rate", "max_rollbacks": 1},
        )
    assert (caught.value.step, caught.value.step_in_epoch) == (2, 1)
    assert kinds(tmp_path / "run") == [
        "not_finite",
        "resumed",
        "rollback",
        "rate_lowered",
        "not_finite",
        "stopped",
    ]


def test_it_stops_where_nothing_else_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(NotFiniteError, match=r"step 2 \(epoch 1, step 2\)"):
        run(tmp_path, **POISONED)
    assert kinds(tmp_path / "run") == ["not_finite"]


def test_going_back_needs_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs checkpoints"):
        run(
            tmp_path,
            **POISONED,
            training__on_not_finite={"action": "skip_batch"},
            output__checkpoints={"every_epochs": 0},
        )
