"""From a tree of values to the sections of a config, collecting every problem on the way."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, TypeVar

from tfdp.config.section import (
    Section,
    broken_rules,
    check_field,
    field_types,
    fields,
    subsection,
)
from tfdp.config.suggest import unknown
from tfdp.config.tree import Node
from tfdp.config.types import BadValue

AnySection = TypeVar("AnySection", bound=Section)


def build_section(section: type[AnySection], node: Node, problems: list[str]) -> AnySection | None:
    """The section that `node` describes, or None after adding what is wrong to `problems`."""
    return _Builder(section, problems).build(section, node, ())


class _Builder:
    def __init__(self, root: type[Section], problems: list[str]) -> None:
        self._root = root
        self._problems = problems

    def build(
        self, section: type[AnySection], node: Node, path: tuple[str, ...]
    ) -> AnySection | None:
        """Builds one section; `path` is its key from the root."""
        values = {} if node.value is None else node.value
        if not isinstance(values, dict):
            self._report(node, path, f"must be a mapping of keys to values, got {node.plain()!r}")
            return None
        before = len(self._problems)
        self._unknown_keys(section, values, path)
        good = dict(self._fields(section, node, values, path))
        for problem in broken_rules(section, good):
            blamed = (*path, *problem.key.split("."))
            self._report(_nearest_node(node, problem.key), blamed, problem.message)
        return section(**good) if len(self._problems) == before else None

    def _unknown_keys(
        self, section: type[Section], values: dict[str, Node], path: tuple[str, ...]
    ) -> None:
        known = [field.name for field in fields(section)]
        for key, child in values.items():
            if key in known:
                continue
            message = unknown(key, known, what="key")
            elsewhere = [place for place in _all_keys(self._root) if place[-1] == key]
            if elsewhere:
                message = f'unknown key "{key}"; did you mean "{".".join(elsewhere[0])}"?'
            self._report(child, (*path, key), message)

    def _fields(
        self,
        section: type[Section],
        node: Node,
        values: dict[str, Node],
        path: tuple[str, ...],
    ) -> Iterator[tuple[str, Any]]:
        """The fields that are right, by name; the others are reported."""
        types = field_types(section)
        for field in fields(section):
            name, here = field.name, (*path, field.name)
            child = values.get(name)
            if nested := subsection(types[name]):
                # A missing section is built too: its defaults may not be enough.
                built = self.build(nested, child or Node(None, node.place), here)
                if built is not None:
                    yield name, built
            elif child is not None:
                try:
                    yield name, check_field(section, name, types[name], child.plain())
                except BadValue as error:
                    self._report(child, here, str(error))
            elif (default := _default(field)) is not dataclasses.MISSING:
                yield name, default
            else:
                self._report(node, here, "is missing")

    def _report(self, node: Node, path: tuple[str, ...], message: str) -> None:
        key = f"{'.'.join(path)}: " if path else ""
        self._problems.append(f"{node.place}: {key}{message}")


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _nearest_node(node: Node, key: str) -> Node:
    """The node at the dotted `key` below `node`, or the last one on the way that exists."""
    for part in key.split("."):
        child = node.value.get(part) if isinstance(node.value, dict) else None
        if child is None:
            break
        node = child
    return node


def _all_keys(section: type[Section], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, declared in field_types(section).items():
        yield (*path, name)
        if nested := subsection(declared):
            yield from _all_keys(nested, (*path, name))
