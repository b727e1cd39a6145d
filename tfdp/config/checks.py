"""Checks of values: each is a function from a value to what is wrong with it, or None."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from tfdp.config.suggest import unknown

Check = Callable[[Any], str | None]

_SERVICE = re.compile(r"grpc://[^\s:/]+:\d{1,5}")
_REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def at_least(limit: float) -> Check:
    def check(value: float) -> str | None:
        return None if value >= limit else f"must be at least {limit}, got {value}"

    return check


def less_than(limit: float) -> Check:
    def check(value: float) -> str | None:
        return None if value < limit else f"must be less than {limit}, got {value}"

    return check


def more_than(limit: float) -> Check:
    def check(value: float) -> str | None:
        return None if value > limit else f"must be more than {limit}, got {value}"

    return check


def one_of(names: Sequence[str], *, what: str) -> Check:
    def check(value: str) -> str | None:
        return None if value in names else unknown(value, names, what=what)

    return check


def finite(value: float) -> str | None:
    return None if math.isfinite(value) else f"must be a finite number, got {value}"


def not_blank(value: str) -> str | None:
    return None if value.strip() else "must not be empty"


def a_path(value: str) -> str | None:
    if "\0" in value:
        return "must not contain a NUL character"
    return not_blank(value)


def function_reference(value: str) -> str | None:
    if _REFERENCE.fullmatch(value):
        return None
    return f'must be "module:function", as in "my_package.models:build", got "{value}"'


def service_address(value: str) -> str | None:
    if _SERVICE.fullmatch(value):
        return None
    return f'must be "grpc://host:port", got "{value}"'


def positive_or_auto(value: float | str) -> str | None:
    if isinstance(value, str):
        return None if value == "auto" else f'must be "auto" or a number, got "{value}"'
    return more_than(0)(value) or finite(value)


def device_list(value: Any) -> str | None:
    """Checks ``strategy.devices``: a positive count, or different names."""
    if isinstance(value, int):
        return at_least(1)(value)
    if not value:
        return "must name one device or more, got an empty list; null means all of them"
    if "" in value:
        return "must not contain an empty name"
    twice = sorted({name for name in value if value.count(name) > 1})
    return f"names a device twice: {', '.join(twice)}" if twice else None


def without_keys(*keys: str, instead: str) -> Check:
    """A mapping must not set `keys`, which have a field of their own, `instead`."""

    def check(value: dict[str, Any]) -> str | None:
        found = [key for key in keys if key in value]
        return f'must not set "{found[0]}": that is {instead}' if found else None

    return check


def either_name_or_function(name: str | None, function: str | None) -> str | None:
    """What is wrong with a section that takes a built-in name or the user's own function."""
    if name is None and function is None:
        return "is missing: set either name or function"
    if name is not None and function is not None:
        return (
            f'is "{name}", but function is set too ("{function}"); '
            "set only one of them (null unsets the other)"
        )
    return None
