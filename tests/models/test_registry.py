"""Models by name and by the user's function."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import pytest

from tfdp.config.names import MODELS as NAMES
from tfdp.errors import ConfigError
from tfdp.models.registry import MODELS, named_model, user_model


def test_the_config_knows_the_models_that_there_are() -> None:
    assert set(MODELS) == set(NAMES)


def test_takes_shape_and_classes_from_the_data_unless_told() -> None:
    model = named_model("resnet_small", {}, input_shape=(9, 8, 2), classes=4)
    assert (model.input_shape, model.output_shape) == ((None, 9, 8, 2), (None, 4))
    model = named_model("resnet_small", {"classes": 6}, input_shape=(9, 8, 2), classes=4)
    assert model.output_shape == (None, 6)


@pytest.mark.parametrize(
    ("name", "arguments", "shape", "message"),
    [
        ("resnet_smal", {}, (8, 8, 1), 'unknown model "resnet_smal"; did you mean "resnet_small"'),
        ("resnet_small", {}, None, "needs input_shape, which the data do not tell"),
        ("resnet_small", {"depth": 3}, (8, 8, 1), "unexpected keyword argument 'depth'"),
        ("resnet_small", {"width": 0}, (8, 8, 1), "ValueError: width is 0; expected 1 or more$"),
    ],
)
def test_refuses(
    name: str, arguments: dict[str, Any], shape: tuple[int, ...] | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        named_model(name, arguments, input_shape=shape, classes=3)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "models_of_a_test.py").write_text(
        "import keras\n"
        "def build(units):\n"
        "    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(units)])\n"
        "def layer():\n"
        "    return keras.layers.Dense(1)\n"
    )
    yield tmp_path
    sys.modules.pop("models_of_a_test", None)


def test_a_users_function_is_called(directory: Path) -> None:
    model = user_model("models_of_a_test:build", {"units": 3}, directory)
    assert isinstance(model, keras.Model)
    assert model.output_shape == (None, 3)


def test_a_layer_is_no_model(directory: Path) -> None:
    with pytest.raises(ConfigError, match=r"returned keras\..*Dense, not a keras.Model"):
        user_model("models_of_a_test:layer", {}, directory)


def test_what_the_function_raises_is_told(directory: Path) -> None:
    with pytest.raises(ConfigError, match=r"raised ValueError: .*models_of_a_test\.py:3\)"):
        user_model("models_of_a_test:build", {"units": -1}, directory)
