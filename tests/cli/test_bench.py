"""The arguments of `tfdp bench`; what it measures is tested with the benchmark."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from tfdp.bench.sizes import DEFAULT_SIZES
from tfdp.cli.main import build_parser


def parsed(*arguments: str) -> argparse.Namespace:
    return build_parser().parse_args(["bench", "allreduce", *arguments])


def test_defaults() -> None:
    options = parsed()
    assert (options.workers, options.devices, options.sizes) == (1, None, DEFAULT_SIZES)
    assert (options.reducers, options.rounds, options.repetitions) == (None, None, 10)
    assert options.json is None


def test_all_arguments() -> None:
    options = parsed(
        *("--workers", "4", "--devices", "2", "--sizes", "1MB,4kB,1MB", "--rounds", "7"),
        *("--reducers", "ring, mpi+bf16", "--repetitions", "5", "--json", "out.json"),
    )
    assert (options.workers, options.devices) == (4, 2)
    assert options.sizes == (4096, 1024**2)
    assert options.reducers == ("ring", "mpi+bf16")
    assert (options.rounds, options.repetitions, str(options.json)) == (7, 5, "out.json")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--workers", "0"), "integer from 1 to 10000"),
        (("--sizes", "1kB,many"), "a size is a number"),
        (("--sizes", "3"), "multiple of 4 bytes"),
        (("--rounds", "x"), "integer from 1"),
    ],
)
def test_wrong_arguments(
    arguments: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parsed(*arguments)
    assert caught.value.code == 2
    assert why in capsys.readouterr().err


def test_a_benchmark_has_to_be_named(capsys: Any) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["bench"])
    assert "BENCHMARK" in capsys.readouterr().err


def parse(*arguments: str) -> argparse.Namespace:
    return build_parser().parse_args(["bench", *arguments])


def test_the_other_benchmarks_have_defaults() -> None:
    scaling = parse("scaling")
    assert (scaling.devices, scaling.workers) == (None, None)
    assert (scaling.kind, scaling.rounds) == ("both", 7)
    peers = parse("peers")
    assert (peers.models, peers.workers, peers.batch, peers.rounds) == (("resnet50",), 2, 64, 7)
    assert parse("peers", "--against", "none").against == ()
    assert parse("timeline", "--bucket-mb", "0.5").bucket_mb == 0.5
    hosts = parse("hosts")
    assert (hosts.reducers, hosts.size) == (("ring", "two_level", "two_level+bf16"), 16 * 1024**2)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("scaling", "--model", "resnet5"), 'unknown model "resnet5"'),
        (("scaling", "--devices", "1,2", "--workers", "1,2"), "not allowed with"),
        (("scaling", "--devices", "1,x"), "positive integers"),
        (("peers", "--models", "resnet50,many"), 'unknown model "many"'),
        (("peers", "--against", "glo"), 'unknown peer "glo"'),
        (("timeline", "--bucket-mb", "0"), "greater than 0"),
        (("hosts", "--size", "3"), "multiple of 4 bytes"),
    ],
)
def test_wrong_arguments_of_the_others(
    arguments: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(*arguments)
    assert caught.value.code == 2
    assert why in capsys.readouterr().err
