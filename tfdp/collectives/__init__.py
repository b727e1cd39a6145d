"""All-reduce implementations, by name, and the choice between them."""

from __future__ import annotations

from tfdp.collectives.base import Reducer, Topology
from tfdp.collectives.registry import choose, names, register, resolve

__all__ = ["Reducer", "Topology", "choose", "names", "register", "resolve"]
