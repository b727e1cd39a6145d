"""Section ``data``: the examples, and how many make a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfdp.config.checks import (
    at_least,
    either_name_or_function,
    finite,
    function_reference,
    less_than,
    one_of,
)
from tfdp.config.names import DATA_SETS
from tfdp.config.section import Rule, Section, setting


@dataclass(frozen=True, kw_only=True)
class DataConfig(Section):
    """The examples, and how many of them make a step."""

    name: str | None = setting(
        f"A data set that comes with tfdp: {', '.join(DATA_SETS)}. Either this or function.",
        one_of(DATA_SETS, what="data set"),
        default=None,
    )
    function: str | None = setting(
        'Your own, as "module:function", found in the config file\'s directory or among the '
        "installed packages. It is called with arguments.",
        function_reference,
        default=None,
    )
    arguments: Mapping[str, Any] = setting(
        "Keyword arguments of the data set or function.", default=dict
    )
    global_batch: int = setting(
        "Examples per step over all replicas, at least one for each.", at_least(1), default=64
    )
    validation_fraction: float = setting(
        "Part of the training examples that is held out for validation, at least 0 and less "
        "than 1; 0: none, unless the data brings validation examples of its own.",
        finite,
        at_least(0),
        less_than(1),
        default=0.0,
    )
    shuffle: bool = setting("A new order of the training examples every epoch.", default=True)
    seed: int = setting(
        "Seed of the order and of the validation split.", at_least(0), less_than(2**31), default=0
    )

    rules = (Rule(("name", "function"), either_name_or_function, blame="name"),)
