"""Sections ``model`` and ``optimizer``: what is trained, and by which rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfdp.config.checks import (
    either_name_or_function,
    finite,
    function_reference,
    more_than,
    one_of,
    without_keys,
)
from tfdp.config.names import MODELS, OPTIMIZERS
from tfdp.config.section import Rule, Section, setting


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Section):
    """The Keras model that is trained."""

    name: str | None = setting(
        f"A model that comes with tfdp: {', '.join(MODELS)}. Either this or function.",
        one_of(MODELS, what="model"),
        default=None,
    )
    function: str | None = setting(
        'Your own, as "module:function", found in the config file\'s directory or among the '
        "installed packages. It is called with arguments and returns a keras.Model.",
        function_reference,
        default=None,
    )
    arguments: Mapping[str, Any] = setting(
        "Keyword arguments of the model or function.", default=dict
    )

    rules = (Rule(("name", "function"), either_name_or_function, blame="name"),)


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig(Section):
    """The Keras optimizer."""

    name: str = setting(
        f"One of {', '.join(OPTIMIZERS)}.", one_of(OPTIMIZERS, what="optimizer"), default="adam"
    )
    learning_rate: float = setting(
        "Step size for the global batch; it is not scaled with the number of replicas.",
        finite,
        more_than(0),
        default=0.001,
    )
    arguments: Mapping[str, Any] = setting(
        "Any other argument of the Keras optimizer: weight_decay, clipnorm, global_clipnorm, "
        "use_ema, gradient_accumulation_steps, momentum, ...",
        without_keys("learning_rate", instead="optimizer.learning_rate"),
        default=dict,
    )
