from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tfdp.config import Config, load_config
from tfdp.config.overrides import apply_overrides
from tfdp.config.tree import Node
from tfdp.errors import ConfigError

TEXT = "version: 1\ndata: {name: fashion_mnist}\nmodel: {name: resnet_small}\n"


def load(directory: Path, *overrides: str) -> Config:
    path = directory / "train.yaml"
    path.write_text(TEXT)
    return load_config(path, overrides)


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("training.epochs=7", "training", "epochs", 7),
        ("training.jit_compile=true", "training", "jit_compile", True),
        ("optimizer.learning_rate=1e-4", "optimizer", "learning_rate", 1e-4),
        ("optimizer.arguments.clipnorm=1.5", "optimizer", "arguments", {"clipnorm": 1.5}),
        ("optimizer.arguments={a: [1]}", "optimizer", "arguments", {"a": [1]}),
        ("strategy.devices=[CPU:0, CPU:1]", "strategy", "devices", ("CPU:0", "CPU:1")),
        ("training.steps_per_epoch=", "training", "steps_per_epoch", None),
        ("output.directory=a=b", "output", "directory", "a=b"),
        (" training.epochs =7", "training", "epochs", 7),
    ],
)
def test_values_have_their_yaml_type(
    tmp_path: Path, override: str, section: str, key: str, value: Any
) -> None:
    found = getattr(getattr(load(tmp_path, override), section), key)
    assert found == value
    assert type(found) is type(value)


def test_the_last_one_holds(tmp_path: Path) -> None:
    assert load(tmp_path, "training.epochs=7", "training.epochs=8").training.epochs == 8


def test_from_name_to_function(tmp_path: Path) -> None:
    config = load(tmp_path, "data.name=null", "data.function=json:load")
    assert (config.data.name, config.data.function) == (None, "json:load")


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("training.epochs", "must be section.key=value, as in training.epochs=3"),
        ("=3", "must be section.key=value, as in training.epochs=3"),
        ("training..epochs=3", "must be section.key=value, as in training.epochs=3"),
        ("training.epochs=[", "not valid YAML: "),
        ("version.x=3", "version is not a section"),
        ("training.epochs=three", "training.epochs: must be an integer, got 'three' (a string)"),
        ("trainin.epochs=3", 'trainin: unknown key "trainin"; did you mean "training"?'),
    ],
)
def test_refuses(tmp_path: Path, override: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, override)
    (found,) = caught.value.problems
    assert found.startswith(f"--set {override}: {problem}")


def test_all_problems_are_returned_and_the_good_ones_applied() -> None:
    root = Node({}, "f")
    assert len(apply_overrides(root, ["a", "b=1", "c=["])) == 2
    assert root.plain() == {"b": 1}
