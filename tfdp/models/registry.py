"""Models by name, or from the user's own function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import keras

from tfdp.config.functions import call_function, load_function
from tfdp.config.suggest import unknown
from tfdp.errors import ConfigError
from tfdp.models.resnet import resnet_small

MODELS: Final[Mapping[str, Callable[..., keras.Model]]] = {"resnet_small": resnet_small}
"""The models that ship with tfdp; each takes `input_shape`, `classes` and options of its own."""


def named_model(
    name: str,
    arguments: Mapping[str, Any],
    *,
    input_shape: tuple[int, ...] | None,
    classes: int | None,
) -> keras.Model:
    """Builds a model that ships with tfdp.

    Args:
      name: a key of `MODELS`.
      arguments: its keyword arguments.
      input_shape: `(height, width, channels)` of the data, used unless `arguments` say otherwise;
        None where the data do not tell.
      classes: the number of classes, the same.

    Raises:
      ConfigError: there is no such model, or it does not take these arguments.
    """
    if name not in MODELS:
        raise ConfigError(f"model.name: {unknown(name, MODELS, what='model')}")
    known = {"input_shape": input_shape, "classes": classes}
    filled = {key: value for key, value in known.items() if value is not None} | dict(arguments)
    missing = [key for key in known if key not in filled]
    if missing:
        raise ConfigError(
            f"model.arguments: {name} needs {' and '.join(missing)}, which the data do not tell.",
            hint=f"Set {' and '.join(f'model.arguments.{key}' for key in missing)}.",
        )
    return call_function(MODELS[name], filled, key="model.arguments", reference=name)


def user_model(reference: str, arguments: Mapping[str, Any], directory: Path) -> keras.Model:
    """Builds a model with the user's own function.

    Args:
      reference: ``module:function``.
      arguments: its keyword arguments.
      directory: the config's directory, where the module is looked for first.

    Raises:
      ConfigError: there is no such function, it raised, or it returned something else than a
        keras.Model.
    """
    key = "model.function"
    function = load_function(reference, key=key, directory=directory)
    model = call_function(function, arguments, key=key, reference=reference)
    if not isinstance(model, keras.Model):
        raise ConfigError(
            f"{key}: {reference} returned {type(model).__module__}.{type(model).__qualname__}, "
            "not a keras.Model."
        )
    return model
