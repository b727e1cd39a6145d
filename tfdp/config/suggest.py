"""Unknown names: quote the nearest known one and list all of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was most likely meant to be, or None.

    Case and the choice of ``-`` or ``_`` do not count against a name, nor do missing words.
    """
    folded = {_fold(candidate): candidate for candidate in known}
    matches = difflib.get_close_matches(_fold(name), folded, n=1, cutoff=0.6)
    if not matches and len(name) > 2:
        matches = [candidate for candidate in folded if _fold(name) in candidate]
    return folded[matches[0]] if len(matches) == 1 else None


def unknown(name: str, known: Iterable[str], *, what: str) -> str:
    """A sentence about an unknown name, for example ``unknown key "epoch"; did you mean ...``."""
    known = tuple(known)
    guess = nearest(name, known)
    meant = "" if guess is None else f'; did you mean "{guess}"?'
    listed = f" (known: {', '.join(known)})" if known else ""
    return f'unknown {what} "{name}"{meant}{listed}'


def _fold(name: str) -> str:
    return name.lower().replace("-", "_")
