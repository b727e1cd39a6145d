from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

from tfdp.config import (
    CheckpointsConfig,
    Config,
    DataConfig,
    ModelConfig,
    OptimizerConfig,
    OutputConfig,
    StrategyConfig,
    TrainingConfig,
    load_config,
)
from tfdp.errors import ConfigError


def make(**sections: Any) -> Config:
    given: dict[str, Any] = {
        "version": 1,
        "data": DataConfig(name="fashion_mnist"),
        "model": ModelConfig(name="resnet_small"),
    }
    return Config(**(given | sections))


def problems_of(section: Any, **values: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        section(**values)
    return caught.value.problems


DATA = {"name": "fashion_mnist"}

# section, values, the one problem there is (behind the section's name)
REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (StrategyConfig, {"devices": 0}, "devices: must be at least 1, got 0"),
    (StrategyConfig, {"devices": True}, "devices: must be an integer, a list of strings or null"),
    (StrategyConfig, {"devices": []}, "devices: must name one device or more"),
    (StrategyConfig, {"devices": ["CPU:0", "CPU:0"]}, "devices: names a device twice: CPU:0"),
    (StrategyConfig, {"devices": ["CPU:0", ""]}, "devices: must not contain an empty name"),
    (StrategyConfig, {"cpu_devices": 0}, "cpu_devices: must be at least 1, got 0"),
    (StrategyConfig, {"kind": "mirror"}, 'kind: unknown strategy kind "mirror"; did you mean "mi'),
    (StrategyConfig, {"kind": "single", "devices": 2}, 'devices: strategy kind "single" trains on'),
    (StrategyConfig, {"kind": "single", "devices": ["CPU:0", "CPU:1"]}, 'devices: strategy kind "'),
    (StrategyConfig, {"kind": "single", "cpu_devices": 2}, 'devices: strategy kind "single" train'),
    (StrategyConfig, {"cross_device_ops": "rings"}, 'cross_device_ops: unknown cross_device_ops "'),
    (StrategyConfig, {"compression": "bf61"}, 'compression: unknown compression "bf61"'),
    (StrategyConfig, {"between": "mip"}, 'between: unknown between "mip"; did you mean "mpi"?'),
    (StrategyConfig, {"between": "mpi"}, 'between: is "mpi", which is a choice of cross_device_'),
    (StrategyConfig, {"autotune": "yes"}, "autotune: must be true or false"),
    (StrategyConfig, {"bucket_mb": 0}, "bucket_mb: must be more than 0, got 0"),
    (StrategyConfig, {"bucket_mb": math.inf}, "bucket_mb: must be a finite number"),
    (StrategyConfig, {"bucket_mb": math.nan}, "bucket_mb: must be more than 0"),
    (StrategyConfig, {"bucket_mb": "4 MB"}, 'bucket_mb: must be "auto" or a number, got "4 MB"'),
    (StrategyConfig, {"bucket_mb": True}, "bucket_mb: must be a number or a string, got true"),
    (StrategyConfig, {"sync_batch_norm": 1}, "sync_batch_norm: must be true or false, got 1"),
    (DataConfig, {}, "name: is missing: set either name or function"),
    (DataConfig, DATA | {"function": "a:b"}, 'name: is "fashion_mnist", but function is set too'),
    (DataConfig, {"name": "mnist"}, 'name: unknown data set "mnist"; did you mean "fashion_mnist"'),
    (DataConfig, {"function": "a.b"}, 'function: must be "module:function"'),
    (DataConfig, {"function": "../a:b"}, 'function: must be "module:function"'),
    (DataConfig, {"function": "a:b()"}, 'function: must be "module:function"'),
    (DataConfig, {"function": "a:b\n"}, 'function: must be "module:function"'),
    (DataConfig, DATA | {"global_batch": 0}, "global_batch: must be at least 1, got 0"),
    (DataConfig, DATA | {"validation_fraction": -0.1}, "validation_fraction: must be at least 0"),
    (DataConfig, DATA | {"validation_fraction": 1}, "validation_fraction: must be less than 1, "),
    (DataConfig, DATA | {"validation_fraction": math.nan}, "validation_fraction: must be a finite"),
    (DataConfig, DATA | {"seed": -1}, "seed: must be at least 0, got -1"),
    (DataConfig, DATA | {"arguments": [1]}, "arguments: must be a mapping, got [1]"),
    (ModelConfig, {}, "name: is missing: set either name or function"),
    (ModelConfig, {"name": "resnet"}, 'name: unknown model "resnet"; did you mean "resnet_small"?'),
    (OptimizerConfig, {"name": "Adm"}, 'name: unknown optimizer "Adm"; did you mean "adam"?'),
    (OptimizerConfig, {"learning_rate": 0}, "learning_rate: must be more than 0, got 0.0"),
    (OptimizerConfig, {"learning_rate": math.inf}, "learning_rate: must be a finite number"),
    (OptimizerConfig, {"learning_rate": 10**400}, "learning_rate: must be a finite number"),
    (OptimizerConfig, {"arguments": {"learning_rate": 1}}, 'arguments: must not set "learning_ra'),
    (TrainingConfig, {"epochs": -1}, "epochs: must be at least 0, got -1"),
    (TrainingConfig, {"epochs": 1.5}, "epochs: must be an integer, got 1.5"),
    (TrainingConfig, {"seed": 2**31}, "seed: must be less than 2147483648, got 2147483648"),
    (TrainingConfig, {"loss": " "}, "loss: must not be empty"),
    (TrainingConfig, {"metrics": "accuracy"}, "metrics: must be a list of strings"),
    (TrainingConfig, {"steps_per_epoch": 0}, "steps_per_epoch: must be at least 1, got 0"),
    (TrainingConfig, {"steps_per_execution": 0}, "steps_per_execution: must be at least 1, got 0"),
    (TrainingConfig, {"mixed_precision": "float61"}, 'mixed_precision: unknown mixed_precision "f'),
    (TrainingConfig, {"jit_compile": "yes"}, "jit_compile: must be true or false, got 'yes'"),
    (OutputConfig, {"directory": ""}, "directory: must not be empty"),
    (OutputConfig, {"directory": "a\0b"}, "directory: must not contain a NUL character"),
    (OutputConfig, {"checkpoints": {"keep": 1}}, "checkpoints: must be a CheckpointsConfig"),
    (CheckpointsConfig, {"every_epochs": -1}, "every_epochs: must be at least 0, got -1"),
    (CheckpointsConfig, {"keep": 0}, "keep: must be at least 1, got 0"),
]


@pytest.mark.parametrize(("section", "values", "problem"), REFUSED)
def test_a_section_refuses(section: Any, values: dict[str, Any], problem: str) -> None:
    (found,) = problems_of(section, **values)
    assert found.startswith(f"{section.__name__}.{problem}")


def test_every_problem_of_a_section_at_once() -> None:
    found = problems_of(TrainingConfig, epochs=-1, seed="x", mixed_precision="half")
    assert [problem.split(":")[0] for problem in found] == [
        "TrainingConfig.epochs",
        "TrainingConfig.seed",
        "TrainingConfig.mixed_precision",
    ]


@pytest.mark.parametrize(
    ("version", "message"),
    [(2, "newer tfdp: update tfdp"), (0, "the only version there is"), ("1", "must be an integer")],
)
def test_version(version: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(version=version)


@pytest.mark.parametrize("devices", [5, ("CPU:0", "CPU:1", "CPU:2", "CPU:3", "CPU:4")])
def test_a_global_batch_smaller_than_the_replicas(devices: Any) -> None:
    strategy = StrategyConfig(devices=devices)
    with pytest.raises(ConfigError) as caught:
        make(strategy=strategy, data=DataConfig(name="fashion_mnist", global_batch=4))
    assert caught.value.problems == [
        "Config.data.global_batch: must be at least the number of replicas, got 4 for 5 devices "
        "(strategy.devices); use a larger batch or fewer devices"
    ]
    make(strategy=strategy, data=DataConfig(name="fashion_mnist", global_batch=5))


@pytest.mark.parametrize(
    ("devices", "gpus", "expected"),
    [
        (None, 0, 3),
        (None, 2, 2),
        (4, 0, 4),
        (1, 2, 1),
        (["CPU:0", "CPU:1"], 2, ("CPU:0", "CPU:1")),
    ],
)
def test_devices_with(devices: Any, gpus: int, expected: Any) -> None:
    assert StrategyConfig(devices=devices, cpu_devices=3).devices_with(gpus) == expected


def test_is_frozen_and_replace_validates() -> None:
    config = make()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.version = 2  # type: ignore[misc]
    with pytest.raises(ConfigError, match=r"TrainingConfig\.epochs"):
        dataclasses.replace(config.training, epochs=-1)


def test_arguments_are_a_copy() -> None:
    arguments = {"momentum": 0.9}
    optimizer = OptimizerConfig(name="sgd", arguments=arguments)
    arguments["momentum"] = 0.5
    assert optimizer.arguments == {"momentum": 0.9}


def test_to_yaml_reads_back_to_the_same_config(tmp_path: Path) -> None:
    arguments = {
        "small": 1e-5,
        "text": "1e-3",
        "more": ["null", "yes", "07", "é", "a: b", None, True, -0.0, {"deep": []}],
        "lines": "a\nb\n",
    }
    config = make(
        strategy=StrategyConfig(kind="mirrored", devices=("CPU:0", "CPU:1")),
        model=ModelConfig(name="resnet_small", arguments=arguments),
        optimizer=OptimizerConfig(name="sgd", learning_rate=1e-7),
        output=OutputConfig(directory="a #b", checkpoints=CheckpointsConfig(keep=9)),
        module_directory=str(tmp_path),
    )
    path = tmp_path / "config.yaml"
    path.write_text(config.to_yaml(), encoding="utf-8")
    assert load_config(path) == config
