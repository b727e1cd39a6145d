"""Conversion of plain YAML values to the declared types of a section's fields."""

from __future__ import annotations

import copy
import math
import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin


class BadValue(Exception):
    """A field cannot have this value; the text says why and quotes it."""


def convert(value: Any, declared: Any) -> Any:
    """Returns `value` as `declared`, one of ``bool, int, float, str, None``, a tuple of strings,
    a mapping with string keys, or a union of these.

    Nothing is guessed: ``"3"`` and ``3.0`` are no ``int`` and ``True`` is no number. A list
    becomes a tuple, an ``int`` becomes a ``float``, a mapping is copied.

    Raises:
      BadValue: `value` is none of these.
    """
    for member in _members(declared):
        found, result = _convert_one(value, member)
        if found:
            return result
    raise BadValue(f"must be {describe(declared)}, got {_show(value)}")


def describe(declared: Any) -> str:
    """The declared type in words, as in "an integer or null"."""
    words = [_WORDS.get(member) or _WORDS[get_origin(member)] for member in _members(declared)]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    type(None): "null",
    tuple: "a list of strings",
    Mapping: "a mapping",
}


def _members(declared: Any) -> tuple[Any, ...]:
    if get_origin(declared) in (Union, types.UnionType):
        return get_args(declared)
    return (declared,)


def _convert_one(value: Any, declared: Any) -> tuple[bool, Any]:
    if declared is float:
        return _number(value)
    if get_origin(declared) is tuple:
        return _strings(value)
    if get_origin(declared) is Mapping:
        return _mapping(value)
    # type() and not isinstance(): a bool is an int to the latter.
    return type(value) is declared, value


def _number(value: Any) -> tuple[bool, float]:
    if type(value) not in (int, float):
        return False, math.nan
    try:
        return True, float(value)
    except OverflowError:
        return True, math.inf


def _strings(value: Any) -> tuple[bool, tuple[str, ...]]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        return False, ()
    return True, tuple(value)


def _mapping(value: Any) -> tuple[bool, dict[str, Any]]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        return False, {}
    return True, copy.deepcopy(dict(value))


def _show(value: Any) -> str:
    if value is None or value == "":
        return "null" if value is None else "an empty string"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    short = text if len(text) <= 60 else f"{text[:57]}..."
    kinds: dict[type, str] = {str: " (a string)", list: " (a list)", dict: " (a mapping)"}
    return short + kinds.get(type(value), "")
