"""`tfdp.verify` on models that are right, that differ by definition, and that are broken."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tfdp
from tests.parity import user_models
from tfdp.errors import (
    DataError,
    ParityError,
    RunError,
    StrategyError,
    UnsupportedError,
)
from tfdp.parity.report import FEATURES, Report

pytestmark = [pytest.mark.multi_process, pytest.mark.slow]

REPLICAS = 3
DEADLINE_SECONDS = 300.0
MODULE = user_models.__name__


MODELS = (
    ("plain", True),
    ("plain", False),
    ("batch_norm_synchronized", True),
    ("batch_norm", True),
    ("dropout", True),
    ("noise_without_switch", True),
    ("depends_on_the_replica", True),
    ("depends_on_the_replica_with_dropout", True),
    ("statistic_of_a_part", True),
)
"""Function of `user_models`, and whether in float64."""

GetReport = Callable[..., Report]


def verified(model: str, exact: bool) -> Report:
    """Two epochs in batches of 6, the last of 1."""
    return tfdp.verify(
        f"{MODULE}:{model}",
        user_models.arrays(),
        (REPLICAS,),
        epochs=2,
        batch_size=6,
        exact=exact,
        timeout_seconds=DEADLINE_SECONDS,
    )


@pytest.fixture(scope="module")
def report() -> Iterator[GetReport]:
    """Reports on all the models, two of them made at a time."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        made = {key: pool.submit(verified, *key) for key in MODELS}
        yield lambda model, exact=True: made[model, exact].result()
        pool.shutdown(cancel_futures=True)


def statuses(found: Report) -> dict[str, str]:
    return {verdict.feature: verdict.status for verdict in found.verdicts}


@pytest.mark.parametrize("exact", [True, False])
def test_a_plain_model_is_equal(exact: bool, report: GetReport) -> None:
    found = report("plain", exact=exact)
    assert found.passed
    assert found.first_difference is None
    assert statuses(found) == {
        **dict.fromkeys(FEATURES, "equal"),
        "statistics": "not used",
        "random streams": "not used",
    }
    largest = max(verdict.difference for verdict in found.verdicts)
    assert largest < (1e-13 if exact else 1e-5)
    assert found.what_ran == (
        "2 epochs of 3 steps of 6 rows, the last of 1 row, " + ("float64" if exact else "float32")
    )
    found.raise_if_different()


def test_statistics_are_compared(report: GetReport) -> None:
    found = report("batch_norm_synchronized")
    assert found.verdict("statistics", REPLICAS).status == "equal"
    assert found.passed


def test_batch_norm_differs_by_definition_and_all_else_is_equal(report: GetReport) -> None:
    found = report("batch_norm")
    assert found.passed
    verdict = found.verdict("weights", REPLICAS)
    assert verdict.status == "differs by definition"
    assert "tfdp.synchronize_batch_norm(model) changes that" in verdict.reason
    assert "Equal without that" in verdict.reason
    assert verdict.difference > 1e-3


def test_dropout_differs_by_definition_and_draws_reproducible_streams(report: GetReport) -> None:
    found = report("dropout")
    assert found.passed
    assert found.verdict("losses", REPLICAS).status == "differs by definition"
    assert "each replica has its own stream" in found.verdict("weights", REPLICAS).reason
    streams = found.verdict("random streams", REPLICAS)
    assert streams.status == "equal"
    assert streams.reason == "each replica draws its own, and the same in a second run"


def test_noise_that_cannot_be_switched_off_is_said_to_be_unchecked(report: GetReport) -> None:
    verdict = report("noise_without_switch").verdict("weights", REPLICAS)
    assert verdict.status == "differs by definition"
    assert "own_noise cannot be switched off" in verdict.reason


def test_a_model_that_depends_on_the_replica_differs(report: GetReport) -> None:
    found = report("depends_on_the_replica")
    assert not found.passed
    first = found.first_difference
    assert first is not None
    assert (first.step, first.feature) == (1, "losses")
    weights = found.verdict("weights", REPLICAS)
    assert weights.step in (1, 2)
    assert weights.variable is not None
    assert weights.difference > 1e-3
    with pytest.raises(ParityError, match="3 replicas did not train what one device trained"):
        found.raise_if_different()
    assert "differs" in str(found)
    assert json.loads(found.to_json())["passed"] is False


def test_a_fault_is_not_excused_by_a_random_layer(report: GetReport) -> None:
    found = report("depends_on_the_replica_with_dropout")
    assert found.verdict("weights", REPLICAS).status == "differs"
    assert "also with" in found.verdict("weights", REPLICAS).reason


def test_a_statistic_of_a_part_of_the_batch_differs_alone(report: GetReport) -> None:
    found = report("statistic_of_a_part")
    statistics = found.verdict("statistics", REPLICAS)
    assert statistics.status == "differs"
    assert statistics.step == 1
    assert str(statistics.variable).endswith("seen")
    assert found.verdict("weights", REPLICAS).status == "equal"


def test_a_script_may_hand_over_its_own_functions(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import keras, numpy as np, tfdp\n"
        "def build():\n"
        "    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])\n"
        "    model.compile('sgd', 'mse')\n"
        "    return model\n"
        "def data():\n"
        "    return np.arange(10.0).reshape(5, 2) / 10, np.ones((5, 1))\n"
        "if __name__ == '__main__':\n"
        "    found = tfdp.verify(build, data, (2,), batch_size=4, exact=True)\n"
        "    assert found.passed, found\n"
        "    print(found.verdict('optimizer state', 2).status)\n",
        encoding="utf-8",
    )
    done = run_script(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "not used"


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import tfdp\ndef build(): pass\ndef data(): pass\ntfdp.verify(build, data, (2,))\n",
        encoding="utf-8",
    )
    done = run_script(script)
    assert done.returncode == 1
    assert "if __name__ == '__main__'" in done.stderr


def test_in_one_process_a_lambda_will_do(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import tfdp\n"
        "from tests.parity import user_models as u\n"
        "found = tfdp.verify(lambda: u.plain(), u.arrays, (1, 2), batch_size=6, exact=True,\n"
        "                    in_process=True)\n"
        "import keras\n"
        "assert keras.config.floatx() == 'float32'\n"
        "assert found.passed, found\n"
        "assert 'in one process' in found.what_ran\n"
        "broken = tfdp.verify(lambda: u.depends_on_the_replica(), u.dataset, (2,), exact=True,\n"
        "                     in_process=True)\n"
        "assert not broken.passed\n",
        encoding="utf-8",
    )
    done = run_script(script)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_data_set_is_handed_over_as_its_batches() -> None:
    found = tfdp.verify(
        user_models.plain,
        user_models.dataset(),
        (2,),
        exact=True,
        timeout_seconds=DEADLINE_SECONDS,
    )
    assert found.passed
    assert found.verdict("predictions", 2).status == "equal"


@pytest.mark.parametrize(
    ("model", "error", "match"),
    [
        ("refused", UnsupportedError, "jit_compile=False"),
        ("fails", RunError, "the user's own mistake"),
        ("makes_a_strategy", UnsupportedError, "makes a strategy of tfdp"),
    ],
)
def test_what_a_child_cannot_do_is_an_error_here(
    model: str, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        verified(model, exact=True)


def test_a_child_that_never_ends_is_stopped() -> None:
    with pytest.raises(RunError, match="not finished after 8 seconds"):
        tfdp.verify(f"{MODULE}:never_ends", user_models.arrays(), (2,), timeout_seconds=8)


def local_function() -> object:
    def build() -> None: ...

    return build


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: None, "a lambda has no name"),
        (local_function(), "inside another function"),
        (functools.partial(user_models.plain), "a partial has no name"),
        (3, "an? int has no name"),
    ],
)
def test_what_cannot_be_handed_over_is_refused(build: object, match: str) -> None:
    with pytest.raises(UnsupportedError, match=match) as caught:
        tfdp.verify(build, user_models.arrays())  # type: ignore[arg-type]
    assert "in_process=True" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"replicas": ()}, StrategyError, "at least one number"),
        ({"replicas": (0, 2)}, StrategyError, "none below 1"),
        ({"epochs": 0}, DataError, "epochs has to be"),
        ({"batch_size": 2.5}, DataError, "batch_size has to be"),
        ({"steps": 0}, DataError, "steps has to be"),
    ],
)
def test_numbers_that_cannot_be_are_refused(
    arguments: dict[str, object], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        tfdp.verify(f"{MODULE}:plain", user_models.arrays(), **arguments)  # type: ignore[arg-type]


def run_script(script: Path) -> subprocess.CompletedProcess[str]:
    repository = Path(__file__).resolve().parents[2]
    return subprocess.run(
        [sys.executable, str(script)],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
