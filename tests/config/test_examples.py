"""Every config that comes with the project."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tfdp.config import load_config

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))


def test_the_promised_ones_are_there() -> None:
    names = {path.name for path in CONFIGS}
    assert {"quickstart.yaml", "multi_worker.yaml", "user_function.yaml"} <= names


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_loads(path: Path) -> None:
    config = load_config(path)
    assert config.output.directory == f"runs/{path.stem}"


def test_the_functions_of_user_function_exist_and_take_its_arguments() -> None:
    config = load_config(Path(__file__).parents[2] / "configs" / "user_function.yaml")
    assert config.module_directory is not None
    tree = ast.parse((Path(config.module_directory) / "example_user.py").read_text())
    functions = {
        node.name: {argument.arg for argument in node.args.args}
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
    for section in (config.data, config.model):
        assert section.function is not None
        module, _, name = section.function.partition(":")
        assert module == "example_user"
        assert set(section.arguments) <= functions[name]
