from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from tfdp.config.types import BadValue, convert, describe

DEVICES = int | tuple[str, ...] | None
MAPPING = Mapping[str, Any]


@pytest.mark.parametrize(
    ("value", "declared", "expected"),
    [
        (3, int, 3),
        (3, float, 3.0),
        (0.5, float, 0.5),
        (False, bool, False),
        ("3", str, "3"),
        (None, str | None, None),
        (2, DEVICES, 2),
        (["CPU:0"], DEVICES, ("CPU:0",)),
        (None, DEVICES, None),
        ({"a": [1]}, MAPPING, {"a": [1]}),
    ],
)
def test_convert(value: Any, declared: Any, expected: Any) -> None:
    result = convert(value, declared)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("value", "declared", "message"),
    [
        ("3", int, "must be an integer, got '3' (a string)"),
        (3.0, int, "must be an integer, got 3.0"),
        (True, int, "must be an integer, got true"),
        (True, float, "must be a number, got true"),
        (None, int, "must be an integer, got null"),
        (1, bool, "must be true or false, got 1"),
        (3, str, "must be a string, got 3"),
        ("", DEVICES, "must be an integer, a list of strings or null, got an empty string"),
        (["a", 1], DEVICES, "must be an integer, a list of strings or null, got ['a', 1] (a list)"),
        ({1: 2}, MAPPING, "must be a mapping, got {1: 2} (a mapping)"),
        ("x" * 99, int, f"must be an integer, got '{'x' * 56}... (a string)"),
    ],
)
def test_refuses(value: Any, declared: Any, message: str) -> None:
    with pytest.raises(BadValue) as caught:
        convert(value, declared)
    assert str(caught.value) == message


def test_a_number_beyond_float_is_infinite_and_left_to_the_checks() -> None:
    assert convert(10**400, float) == math.inf


def test_a_mapping_is_copied() -> None:
    given = {"a": [1]}
    convert(given, MAPPING)["a"].append(2)
    assert given == {"a": [1]}


def test_describe() -> None:
    assert describe(DEVICES) == "an integer, a list of strings or null"
    assert describe(MAPPING) == "a mapping"
