from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from tfdp.config import Config, DataConfig, ModelConfig
from tfdp.config.reference import describe_keys


def leaves(plain: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in plain.items():
        if isinstance(value, dict) and key != "arguments":
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def test_every_key_is_described() -> None:
    keys = {key.name: key for key in describe_keys()}
    config = Config(
        version=1, data=DataConfig(name="fashion_mnist"), model=ModelConfig(name="resnet_small")
    )
    assert list(keys) == list(leaves(yaml.safe_load(config.to_yaml())))
    assert all(len(key.doc) > 10 and key.doc.endswith(".") for key in keys.values())


def test_type_and_default() -> None:
    keys = {key.name: key for key in describe_keys()}
    assert keys["version"][1:3] == ("an integer", "required")
    assert keys["strategy.devices"][1:3] == (
        "an integer, a list of strings or null",
        "default null",
    )
    assert keys["training.metrics"].default == "default [accuracy]"
    assert keys["output.checkpoints.keep"].default == "default 3"
    assert keys["model.arguments"].default == "default {}"
