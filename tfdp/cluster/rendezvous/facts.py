"""What the workers of a group must have in common, and how long they wait for each other."""

from __future__ import annotations

import importlib.metadata
import math
import platform
from collections.abc import Mapping
from typing import Final

from tfdp.errors import ClusterError

START_TIMEOUT_VARIABLE: Final = "TFDP_START_TIMEOUT"
DEFAULT_START_TIMEOUT_SECONDS: Final = 15.0

_PACKAGES = ("tfdp", "tensorflow", "keras")


def version_facts() -> dict[str, str]:
    """Versions of Python and of the packages that all workers must share; loads none of them."""
    facts = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in _PACKAGES:
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def start_timeout(environ: Mapping[str, str]) -> float:
    """Seconds that workers wait for each other: ``TFDP_START_TIMEOUT``, or the default.

    Raises:
      ClusterError: the variable is not a positive number.
    """
    text = environ.get(START_TIMEOUT_VARIABLE, "").strip()
    if not text:
        return DEFAULT_START_TIMEOUT_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (0 < seconds < math.inf):
        raise ClusterError(
            f'{START_TIMEOUT_VARIABLE} must be a number of seconds greater than 0, got "{text}"'
        )
    return seconds
