"""YAML as configs use it: PyYAML's safe loader and dumper, with numbers such as ``1e-3``."""

from __future__ import annotations

import re
from typing import Any

import yaml

_EXPONENT = re.compile(r"[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+|[-+]?[0-9][0-9_]*\.[0-9_]*[eE][0-9]+")


class Loader(yaml.SafeLoader):
    """The safe loader, which also takes ``1e-3`` and ``1.0e3`` for the numbers that they are.

    YAML 1.1, which PyYAML follows, wants a dot and a sign in them and else reads a string.
    """


class _Dumper(yaml.SafeDumper):
    """The safe dumper, which quotes strings that `Loader` would take for numbers."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _class in (Loader, _Dumper):
    _class.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))


def dump(plain: dict[str, Any]) -> str:
    """Dicts, lists and scalars as YAML, in the order of the dicts."""
    return yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=88)


def dump_flow(value: Any) -> str:
    """A value as YAML on one line, as it can stand behind ``--set key=``."""
    plain = list(value) if isinstance(value, tuple) else value
    text = yaml.dump(plain, Dumper=_Dumper, default_flow_style=True, width=10**9)
    return text.removesuffix("\n").removesuffix("\n...")
