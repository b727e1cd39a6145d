from __future__ import annotations

import inspect
import pickle

import pytest

from tfdp import errors

CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, errors.TfdpError)
]


def test_exit_codes_are_the_published_ones() -> None:
    assert {cls.__name__: cls.exit_code for cls in CLASSES} == {
        "TfdpError": 70,
        "ParityError": 1,
        "ConfigError": 2,
        "ClusterError": 3,
        "StrategyError": 4,
        "DataError": 5,
        "RunError": 6,
        "UnsupportedError": 7,
        "WorkerError": 8,
        "StalledError": 79,
        "PreemptedError": 75,
        "NotFiniteError": 6,
        "DriftError": 6,
    }


@pytest.mark.parametrize("cls", CLASSES)
def test_text_is_the_message_and_the_hint(cls: type[errors.TfdpError]) -> None:
    assert str(cls("it is red")) == "it is red"
    error = cls("it is red", hint="Paint it.")
    assert (error.message, error.hint, str(error)) == (
        "it is red",
        "Paint it.",
        "it is red\nPaint it.",
    )


@pytest.mark.parametrize("cls", CLASSES)
def test_survives_the_way_between_processes(cls: type[errors.TfdpError]) -> None:
    error = pickle.loads(pickle.dumps(cls("it is red", hint="Paint it.")))  # noqa: S301
    assert type(error) is cls
    assert str(error) == "it is red\nPaint it."


def test_config_error_holds_each_problem() -> None:
    error = errors.ConfigError(["one", "two"], hint="Fix both.")
    assert error.problems == ["one", "two"]
    assert str(error) == "one\ntwo\nFix both."
    assert pickle.loads(pickle.dumps(error)).problems == ["one", "two"]  # noqa: S301
    assert errors.ConfigError("one").problems == ["one"]
