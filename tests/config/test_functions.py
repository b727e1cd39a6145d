"""Functions named in a config: found, called, and what is said where that fails."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tfdp.config.functions import call_function, load_function
from tfdp.errors import ConfigError, DataError

MODULE = "module_of_test_functions"

SOURCE = """
import os.path

CONSTANT = 3

def add(a, b=1):
    return a + b

def refuse():
    raise ValueError("no\\n  such thing")

def inside_a_library():
    return os.path.join(1)

class Space:
    @staticmethod
    def half(a):
        return a / 2
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / f"{MODULE}.py").write_text(SOURCE)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith(MODULE)]:
        del sys.modules[name]


def find(reference: str, directory: Path) -> Callable[..., object]:
    return load_function(reference, key="data.function", directory=directory)


def test_finds_functions_and_their_members(directory: Path) -> None:
    assert find(f"{MODULE}:add", directory)(2) == 3
    assert find(f"{MODULE}:Space.half", directory)(3) == 1.5
    assert find("json:dumps", directory)([1]) == "[1]"


def test_a_module_finds_its_neighbours_when_called(directory: Path) -> None:
    (directory / f"{MODULE}_late.py").write_text("VALUE = 5\n")
    (directory / f"{MODULE}_user.py").write_text(
        f"def read():\n    from {MODULE}_late import VALUE\n    return VALUE\n"
    )
    assert find(f"{MODULE}_user:read", directory)() == 5


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("add", "not of the form module:function"),
        (f"{MODULE}:", "not of the form module:function"),
        (f"{MODULE}x:add", f"there is no module '{MODULE}x'"),
        (f"{MODULE}:ad", r"has no 'ad'. Did you mean 'add'\?"),
        (f"{MODULE}:Space.halve", r"has no 'Space.halve'. Did you mean 'half'\?"),
        (f"{MODULE}:CONSTANT", "is a int, not a function"),
    ],
)
def test_refuses(directory: Path, reference: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^data.function: .*{message}"):
        find(reference, directory)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_module_at_all", "needs the module 'no_such_module_at_all'"),
        ("def f(:\n", r"SyntaxError: .*broken.py:1\)"),
        ("\nraise RuntimeError('why')", r"RuntimeError: why \(.*broken.py:2\)"),
    ],
)
def test_says_why_a_module_cannot_be_imported(directory: Path, source: str, message: str) -> None:
    (directory / f"{MODULE}_broken.py").write_text(source)
    with pytest.raises(ConfigError, match=message):
        find(f"{MODULE}_broken:f", directory)


def test_refuses_a_namesake_from_elsewhere(directory: Path) -> None:
    other = directory / "other"
    other.mkdir()
    (other / f"{MODULE}.py").write_text("def add():\n    return 'another'\n")
    find(f"{MODULE}:add", directory)
    with pytest.raises(ConfigError, match="a module of that name is already loaded"):
        find(f"{MODULE}:add", other)


def call(name: str, directory: Path, **arguments: object) -> object:
    reference = f"{MODULE}:{name}"
    return call_function(
        find(reference, directory),
        arguments,
        key="data.function",
        reference=reference,
        error=DataError,
    )


def test_calls_with_keyword_arguments(directory: Path) -> None:
    assert call("add", directory, a=2, b=5) == 7


@pytest.mark.parametrize(
    ("arguments", "message"), [({}, "required argument: 'a'"), ({"a": 1, "c": 2}, "argument 'c'")]
)
def test_wrong_arguments_are_the_configs_fault(
    directory: Path, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        call("add", directory, **arguments)


def test_an_exception_is_told_on_one_line_with_its_place(directory: Path) -> None:
    with pytest.raises(DataError) as caught:
        call("refuse", directory)
    place = f"{directory.resolve() / MODULE}.py:10"
    assert str(caught.value) == (
        f"data.function: {MODULE}:refuse raised ValueError: no such thing ({place})"
    )
    assert isinstance(caught.value.__cause__, ValueError)


def test_the_place_is_a_line_that_the_user_wrote(directory: Path) -> None:
    with pytest.raises(DataError, match=rf"TypeError: .*{MODULE}\.py:13\)"):
        call("inside_a_library", directory)
