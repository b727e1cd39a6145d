"""What the sections of a config have in common: documented fields that check themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, get_type_hints

from tfdp.config.checks import Check
from tfdp.config.types import BadValue, convert
from tfdp.errors import ConfigError


class Problem(NamedTuple):
    """What is wrong with one key; `key` is relative to the section that found it."""

    key: str
    message: str


@dataclass(frozen=True)
class Rule:
    """A condition on several fields of a section.

    Attributes:
      fields: the fields it looks at. It is not asked where one of them is wrong already.
      find: called with their values, returns what is wrong or None.
      blame: the key, relative to the section, that the problem is reported at.
    """

    fields: tuple[str, ...]
    find: Callable[..., str | None]
    blame: str


def setting(doc: str, *checks: Check, default: Any = dataclasses.MISSING) -> Any:
    """A field of a section with its documentation, default and checks.

    A field without a default must be set. A section as the default is made anew each time.
    """
    metadata = {"doc": doc, "checks": checks}
    if isinstance(default, type):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


class Section:
    """Base of the frozen dataclasses that make up a config.

    Construction raises `ConfigError` with every problem there is.
    """

    rules: ClassVar[tuple[Rule, ...]] = ()

    def __post_init__(self) -> None:
        good: dict[str, Any] = {}
        problems: list[Problem] = []
        for name, declared in field_types(type(self)).items():
            try:
                good[name] = check_field(type(self), name, declared, getattr(self, name))
            except BadValue as error:
                problems.append(Problem(name, str(error)))
            else:
                object.__setattr__(self, name, good[name])
        problems += broken_rules(type(self), good)
        if problems:
            kind = type(self).__name__
            raise ConfigError([f"{kind}.{key}: {message}" for key, message in problems])


def field_types(section: type[Section]) -> dict[str, Any]:
    """The declared type of each field, in order."""
    hints = get_type_hints(section)
    return {field.name: hints[field.name] for field in fields(section)}


def fields(section: type[Section]) -> tuple[dataclasses.Field[Any], ...]:
    """The dataclass fields of a section, in order."""
    return dataclasses.fields(section)  # type: ignore[arg-type]


def subsection(declared: Any) -> type[Section] | None:
    """`declared` if it is a section, else None."""
    return declared if isinstance(declared, type) and issubclass(declared, Section) else None


def check_field(section: type[Section], name: str, declared: Any, value: Any) -> Any:
    """Returns `value` converted to the field's type.

    Raises:
      BadValue: it has another type, or one of the field's checks refuses it.
    """
    if nested := subsection(declared):
        if not isinstance(value, nested):
            raise BadValue(f"must be a {nested.__name__}, got {value!r}")
        return value
    value = convert(value, declared)
    if value is None:
        return None
    (field,) = (field for field in fields(section) if field.name == name)
    for check in field.metadata["checks"]:
        if (message := check(value)) is not None:
            raise BadValue(message)
    return value


def broken_rules(section: type[Section], good: Mapping[str, Any]) -> Iterator[Problem]:
    """The problems that the section's rules find among its `good` fields."""
    for rule in section.rules:
        if all(name in good for name in rule.fields):
            message = rule.find(*(good[name] for name in rule.fields))
            if message is not None:
                yield Problem(rule.blame, message)


def to_plain(section: Section) -> dict[str, Any]:
    """The section as dicts, lists and scalars, as it would stand in a YAML file."""
    plain: dict[str, Any] = {}
    for field in fields(type(section)):
        value = getattr(section, field.name)
        if isinstance(value, Section):
            value = to_plain(value)
        plain[field.name] = list(value) if isinstance(value, tuple) else value
    return plain
