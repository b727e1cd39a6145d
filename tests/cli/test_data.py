"""The arguments of `tfdp data`, and its exit codes; what the tools do is tested with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.data.originals import write_originals
from tests.data.tools.subjects import write_numbers
from tfdp.cli import data
from tfdp.cli.main import build_parser, main


@pytest.fixture(autouse=True)
def _runtime_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow is loaded already, so its settings cannot be made again."""
    monkeypatch.setattr(data, "prepare_runtime", lambda: None)


def test_audit_arguments() -> None:
    options = build_parser().parse_args(["data", "audit", "a.yaml"])
    assert (options.workers, options.replicas, options.epochs) == (None, None, 1)
    assert (options.part, options.by, options.json) == ("train", None, False)


def test_convert_and_peek_arguments() -> None:
    parse = build_parser().parse_args
    options = parse(["data", "convert", "csv", "out", "--set", "files=a.csv", "--shards", "3"])
    assert (options.source, options.out, options.shards) == ("csv", Path("out"), 3)
    assert (options.jobs, options.overrides) == (None, ["files=a.csv"])
    options = parse(["data", "peek", "csv", "-n", "2", "--rows", "0", "--save", "a.png"])
    assert (options.examples, options.rows, options.save) == (2, 0, Path("a.png"))
    for wrong in (["audit", "a", "--workers", "0"], ["peek", "a", "--rows", "x"], []):
        with pytest.raises(SystemExit):
            parse(["data", *wrong])


def test_audit_exits_with_1_where_examples_are_doubled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "a.yaml"
    config.write_text(
        "version: 1\n"
        "strategy: {kind: mirrored, devices: 2}\n"
        "data:\n"
        "  name: tfrecord\n"
        "  global_batch: 8\n"
        "  arguments: {files: 'w{worker}.tfrecord', features: {x: float32, label: int64}}\n"
        "model: {name: resnet_small}\n"
    )
    write_numbers(tmp_path / "w0.tfrecord", range(10))
    write_numbers(tmp_path / "w1.tfrecord", range(10, 20))
    assert main(["data", "audit", str(config), "--workers", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["sound"], found["replicas_per_worker"]) == (True, 2)
    write_numbers(tmp_path / "w1.tfrecord", range(7, 20))
    assert main(["data", "audit", str(config), "--workers", "2"]) == 1
    said = capsys.readouterr().out
    assert "lost: 0, DOUBLED: 3" in said
    assert "examples are lost or doubled" in said


def test_convert_and_peek(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_originals(tmp_path / "idx", train=12, test=3)
    source = ["fashion_mnist", "--set", f"directory={tmp_path / 'idx'}"]
    out = str(tmp_path / "out")
    assert main(["data", "convert", *source[:1], out, *source[1:], "--shards", "2"]) == 0
    said = capsys.readouterr().out
    assert "12 examples in 2 shards" in said
    assert "name: tfrecord" in said
    assert main(["data", "peek", *source, "-n", "1", "--save", str(tmp_path / "p.png")]) == 0
    assert "example 0" in capsys.readouterr().out
    assert main(["data", "convert", *source[:1], str(tmp_path), *source[1:]]) == 6
    assert "hint: Name a folder that is empty" in capsys.readouterr().err
    assert main(["data", "peek", "fashion"]) == 2
