"""The input benchmark compares the same work, and counts right."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdp.bench import input_timing
from tfdp.bench.bandwidth import quartiles
from tfdp.bench.command import run_input
from tfdp.bench.input import (
    Comparison,
    InputMeasurement,
    InputOptions,
    linear_deviation,
    measure_one,
)
from tfdp.bench.input_made import KINDS, make_data
from tfdp.bench.input_report import InputReport
from tfdp.bench.input_timing import STAGES, bare_pipelines, in_turn, make_batches, tfdp_pipelines
from tfdp.cli.main import build_parser
from tfdp.config import DataConfig
from tfdp.data.builder import load_data
from tfdp.errors import ConfigError, DataError


def examples_in(pipelines: Any) -> Counter[tuple[bytes, ...]]:
    """Every example of every batch, by its bytes."""
    found: Counter[tuple[bytes, ...]] = Counter()
    for dataset in pipelines:
        for batch in dataset.as_numpy_iterator():
            columns = tf.nest.flatten(batch)
            found.update(
                tuple(leaf.tobytes() for leaf in row) for row in zip(*columns, strict=True)
            )
    return found


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_both_do_the_same_work(kind: str, tmp_path: Path) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow, an extra, is not installed")
    config = make_data(kind, 40, tmp_path)
    examples = load_data(config, tmp_path).train
    ours = examples_in(tfdp_pipelines(make_batches(examples, config, tmp_path), 1))
    assert ours.total() == 40
    for workers in (1, 3):
        assert examples_in(bare_pipelines(examples, config, workers)) == ours
    shared = examples_in(tfdp_pipelines(make_batches(examples, config, tmp_path), 3))
    assert shared == ours


def test_made_up_examples_are_the_same_in_every_file(tmp_path: Path) -> None:
    found = []
    for kind in ("npz", "tfrecord"):
        (tmp_path / kind).mkdir()
        config = make_data(kind, 30, tmp_path / kind)
        examples = load_data(config, tmp_path).train
        found.append(examples_in(bare_pipelines(examples, config, 1)))
    assert found[0] == found[1]
    with pytest.raises(ConfigError, match="unknown kind of made-up data"):
        make_data("nothing", 3, tmp_path)


def test_pairs_in_turn() -> None:
    calls: list[str] = []
    found = in_turn(
        lambda: calls.append("a") or float(len(calls)),
        lambda: calls.append("b") or float(len(calls)),
        3,
    )
    assert "".join(calls) == "ab" + "ab" + "ba" + "ab"
    assert found == ([3, 6, 7], [4, 5, 8])


def measurement(rows: int, seconds: float, memory: tuple[int, ...] = (5, 9, 9, 9)) -> Any:
    return InputMeasurement(
        name="source",
        rows=rows,
        load_seconds=1.0,
        comparisons=(Comparison(1, (seconds, 2 * seconds, 4 * seconds), (seconds,) * 3),),
        first_batch={"tfdp": 0.1, "bare": 0.2},
        stages=dict(zip(STAGES, (0.1, 0.4, 0.2, 0.0), strict=True)),
        memory=memory,
    )


def test_what_is_made_of_the_seconds() -> None:
    one = measurement(100, 2.0)
    assert one.comparisons[0].ratios == [0.25, 0.5, 1.0]
    assert one.comparisons[0].ratio == 0.5
    assert one.limit == "decode"
    assert one.growth_per_epoch == 0
    assert measurement(100, 2.0, (0, 4, 8, 12, 16, 20)).growth_per_epoch == 4
    # 0.02 s a row, and 0.03 s a row.
    assert linear_deviation([one, measurement(1000, 30.0)]) == pytest.approx(1.5)
    assert quartiles([1.0]) == (1.0, 1.0)


def test_a_report() -> None:
    report = InputReport([measurement(100, 2.0), measurement(1000, 30.0)])
    (line,) = report.lines()
    assert "differ by a factor of 1.50" in line
    written = json.loads(report.to_json())
    assert [each["rows"] for each in written["measurements"]] == [100, 1000]
    assert written["measurements"][0]["comparisons"][0]["ratio"] == 0.5
    assert [table.row_count for table in report.tables()] == [2, 2]


def test_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = InputOptions(
        made=("npz",), rows=(300,), pipelines=(1, 2), repetitions=1, epochs=2, global_batch=32
    )
    assert run_input(options, tmp_path / "out.json") == 0
    (found,) = json.loads((tmp_path / "out.json").read_text())["measurements"]
    assert (found["source"], found["rows"]) == ("npz", 300)
    assert [each["pipelines"] for each in found["comparisons"]] == [1, 2]
    assert all(seconds > 0 for each in found["comparisons"] for seconds in each["tfdp_seconds"])
    assert len(found["memory_bytes"]) == 2
    assert "npz" in capsys.readouterr().out


def test_memory_is_what_the_system_says() -> None:
    before = input_timing.resident_bytes()
    held = np.ones(64 * 1024**2, np.uint8)
    assert 60 * 1024**2 < input_timing.resident_bytes() - before < 80 * 1024**2
    assert held[0] == 1


def test_a_data_set_of_the_users_is_refused(tmp_path: Path) -> None:
    (tmp_path / "benched_program.py").write_text(
        "import tensorflow as tf\n"
        "def data():\n"
        "    return tf.data.Dataset.from_tensor_slices(([[1.0]], [1])).batch(1)\n"
    )
    config = DataConfig(function="benched_program:data")
    with pytest.raises(DataError, match="nothing to compare"):
        measure_one("mine", config, tmp_path, InputOptions())


def test_arguments() -> None:
    parse = build_parser().parse_args
    options = parse(["bench", "input"])
    assert (options.configs, options.pipelines, options.rows) == ([], (1, 2, 4), (100_000,))
    options = parse(["bench", "input", "a.yaml", "--rows", "10_000,2", "--kinds", "npz, csv"])
    assert (options.configs, options.rows) == (["a.yaml"], (10_000, 2))
    assert options.kinds == ("npz", "csv")
    for wrong in (["--rows", "0"], ["--pipelines", "1,x"], ["--epochs", "0"]):
        with pytest.raises(SystemExit):
            parse(["bench", "input", *wrong])
