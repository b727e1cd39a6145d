"""A table of all keys of a config, for ``--help`` and the documentation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

from tfdp.config.schema import Config
from tfdp.config.section import Section, field_types, fields, subsection
from tfdp.config.types import describe
from tfdp.config.yaml_text import dump_flow


class Key(NamedTuple):
    """One key of a config.

    Attributes:
      name: with its sections, such as ``training.epochs``.
      type: in words, such as "an integer or null".
      default: such as "default 1", or "required".
      doc: what it does.
    """

    name: str
    type: str
    default: str
    doc: str


def describe_keys(section: type[Section] = Config, prefix: str = "") -> Iterator[Key]:
    """All keys, in the order of the sections; the sections themselves are left out."""
    types = field_types(section)
    for field in fields(section):
        name, declared = f"{prefix}{field.name}", types[field.name]
        if nested := subsection(declared):
            yield from describe_keys(nested, f"{name}.")
        else:
            yield Key(name, describe(declared), _default(field), field.metadata["doc"])


def _default(field: dataclasses.Field[object]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f"default {dump_flow(field.default_factory())}"
    if field.default is dataclasses.MISSING:
        return "required"
    return f"default {dump_flow(field.default)}"
