"""``--set section.key=value``: the value is YAML, so it has the type it would have in the file."""

from __future__ import annotations

from collections.abc import Sequence

from tfdp.config.tree import Node, TreeError, read_tree


def apply_overrides(root: Node, overrides: Sequence[str]) -> list[str]:
    """Sets each ``a.b=value`` in `root` in turn; returns what is wrong with any of them.

    Mappings on the way are made where they are missing. Whether the keys exist is not looked at:
    that is the schema's part.
    """
    problems: list[str] = []
    for text in overrides:
        try:
            _apply(root, text)
        except TreeError as error:
            problems += error.problems
    return problems


def _apply(root: Node, text: str) -> None:
    place = f"--set {text}"
    key, equals, value_text = text.partition("=")
    path = [part.strip() for part in key.split(".")]
    if not equals or not all(path):
        raise TreeError([f"{place}: must be section.key=value, as in training.epochs=3"])
    value = read_tree(value_text, place, lines=False) or Node(None, place)
    parent = root
    for depth, part in enumerate(path[:-1], start=1):
        child = parent.value.get(part)
        if child is None or child.value is None:
            child = parent.value[part] = Node({}, place)
        if not isinstance(child.value, dict):
            raise TreeError([f"{place}: {'.'.join(path[:depth])} is not a section"])
        parent = child
    parent.value[path[-1]] = value
