from __future__ import annotations

from typing import Any

import pytest

from tfdp.config.tree import MAX_NODES, TreeError, read_tree


def read(text: str) -> Any:
    tree = read_tree(text, "f", lines=True)
    return None if tree is None else tree.plain()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("1e-3", 1e-3),
        ("1E5", 1e5),
        ("-2e+1", -20.0),
        ("1.5e3", 1500.0),
        ("1.e2", 100.0),
        ("'1e-3'", "1e-3"),
        ("1e", "1e"),
        ("e5", "e5"),
        ("3", 3),
        ("3.0", 3.0),
        ("module:function", "module:function"),
        ("none", "none"),
        ("null", None),
        ("~", None),
        ("{a: [1, {b: c}]}", {"a": [1, {"b": "c"}]}),
        ("{a: &x [1], b: *x}", {"a": [1], "b": [1]}),
    ],
)
def test_values(text: str, value: Any) -> None:
    assert read(text) == value
    assert type(read(text)) is type(value)


def test_places_are_lines() -> None:
    tree = read_tree("a: 1\nb:\n  c: 2\n  d:\n  - 3\n", "f.yaml", lines=True)
    assert tree is not None
    inner = tree.value["b"].value
    assert (tree.place, tree.value["a"].place) == ("f.yaml:1", "f.yaml:1")
    assert (inner["c"].place, inner["d"].value[0].place) == ("f.yaml:3", "f.yaml:5")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\na: 2", 'f:2: key "a" is set twice'),
        ("1: a", "f:1: a key must be a string, got 1"),
        ("? [a]\n: b", "f:1: a !!seq is not allowed here"),
        ("a: !!python/object/apply:os.system [ls]", "f:1: a !!python/object/apply:os.system is"),
        ("a: !mine b", "f:1: a !mine is not allowed here"),
        ("a: !!set {b}", "f:1: a !!set is not allowed here"),
        ("a: !!int b", 'f:1: "b" cannot be read'),
        ("a: 2024-13-01", "f:1: a !!timestamp is not allowed here; put it in quotes"),
        ("a: &x {b: 1}\nc:\n  <<: *x", "f:3: a !!merge is not allowed here; put it in quotes"),
        ("a: [1\nb: 2", "f:2: not valid YAML: expected ',' or ']'"),
        ("a: *x", "f:1: not valid YAML: found undefined alias"),
        ("a: 1\n--- \nb: 2", "f:2: not valid YAML: but found another document"),
        ("a: 1\nb: \t@", "f:2: not valid YAML: found character"),
        ("a: \0", "f: not valid YAML: unacceptable character #x0000"),
        ("a: &x [*x]", "f:1: an alias contains itself"),
        ("[" * 5000, "f: nested too deeply"),
    ],
)
def test_refuses(text: str, problem: str) -> None:
    with pytest.raises(TreeError) as caught:
        read(text)
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith(problem)


def test_every_duplicate_at_once() -> None:
    with pytest.raises(TreeError) as caught:
        read("a: 1\na: 2\nb: {c: 1, c: 2}\n")
    assert caught.value.problems == ['f:2: key "a" is set twice', 'f:3: key "c" is set twice']


def test_aliases_that_multiply_are_stopped() -> None:
    levels = [f"l{n + 1}: &l{n + 1} [{', '.join([f'*l{n}'] * 10)}]" for n in range(9)]
    with pytest.raises(TreeError, match=f"more than {MAX_NODES} values"):
        read("\n".join(["l0: &l0 [x]", *levels]))
