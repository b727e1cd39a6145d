"""YAML text as a tree of values that know where they were written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

from tfdp.config.yaml_text import Loader

MAX_NODES: Final = 10_000
"""A config has tens of values: more can only come from a few aliases that multiply."""


@dataclass
class Node:
    """A value and its place.

    Attributes:
      value: a dict of `Node` by key, a list of `Node`, or a scalar.
      place: where it was written, such as ``train.yaml:12`` or ``--set training.epochs=3``.
    """

    value: Any
    place: str

    def plain(self) -> Any:
        """The value without its places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


class TreeError(Exception):
    """The text is no YAML that a config can be; `problems` have their places."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def read_tree(text: str, name: str, *, lines: bool) -> Node | None:
    """Parses one YAML document; None if it is empty.

    Args:
      text: the YAML.
      name: what the places start with.
      lines: whether places also have a line number.

    Raises:
      TreeError: the syntax is wrong; or with every key that stands twice and every tag that makes
        something else than a mapping, list, string, number, boolean or null.
    """
    builder = _Builder(name, lines)
    try:
        tree = builder.read(text)
    except yaml.YAMLError as error:
        raise TreeError([builder.describe(error)]) from None
    except RecursionError:
        raise TreeError([f"{name}: nested too deeply"]) from None
    if builder.problems:
        raise TreeError(builder.problems)
    return tree


class _Builder:
    """Turns the nodes of one document into a tree."""

    def __init__(self, name: str, lines: bool) -> None:
        self._name = name
        self._lines = lines
        self._count = 0
        self._loader = Loader("")
        self.problems: list[str] = []

    def read(self, text: str) -> Node | None:
        self._loader = Loader(text)
        try:
            root = self._loader.get_single_node()
            return None if root is None else self.build(root, ())
        finally:
            self._loader.dispose()

    def build(self, node: yaml.Node, outer: tuple[yaml.Node, ...]) -> Node:
        self._count += 1
        if self._count > MAX_NODES:
            raise TreeError([f"{self._place(node)}: more than {MAX_NODES} values"])
        if any(node is parent for parent in outer):
            raise TreeError([f"{self._place(node)}: an alias contains itself"])
        inner = (*outer, node)
        value: Any
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            value = {key: self.build(child, inner) for key, child in self._items(node)}
        elif isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            value = [self.build(child, inner) for child in node.value]
        else:
            value = self._scalar(node)
        return Node(value, self._place(node))

    def describe(self, error: yaml.YAMLError) -> str:
        """A YAML error as one line with its place."""
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
            parts = [part for part in (error.problem, error.context) if part]
            return f"{self._at(error.problem_mark)}: not valid YAML: {', '.join(parts)}"
        return f"{self._name}: not valid YAML: {' '.join(str(error).split())}"

    def _items(self, node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node]]:
        seen: set[str] = set()
        for key_node, child in node.value:
            count = len(self.problems)
            key = self._scalar(key_node)
            if len(self.problems) > count:
                continue
            if not isinstance(key, str):
                self.problems.append(f"{self._place(key_node)}: a key must be a string, got {key}")
            elif key in seen:
                self.problems.append(f'{self._place(key_node)}: key "{key}" is set twice')
            else:
                seen.add(key)
                yield key, child

    def _scalar(self, node: yaml.Node) -> Any:
        if not isinstance(node, yaml.ScalarNode) or node.tag not in _TAGS:
            kind = node.tag.replace("tag:yaml.org,2002:", "!!")
            advice = "; put it in quotes" if node.tag in _QUOTABLE else ""
            self.problems.append(f"{self._place(node)}: a {kind} is not allowed here{advice}")
            return None
        try:
            return self._loader.construct_object(node)
        except ValueError as error:
            # PyYAML lets through what int() and float() raise, for example for "!!int x".
            self.problems.append(f'{self._place(node)}: "{node.value}" cannot be read: {error}')
            return None

    def _place(self, node: yaml.Node) -> str:
        return self._at(node.start_mark)

    def _at(self, mark: yaml.Mark) -> str:
        return f"{self._name}:{mark.line + 1}" if self._lines else self._name


_TAGS = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float", "str"))
_QUOTABLE = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("timestamp", "merge", "value"))
