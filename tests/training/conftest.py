"""What holds for tests of training."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.training.configs import functions_forgotten


@pytest.fixture(autouse=True)
def _functions_forgotten() -> Iterator[None]:
    """Each test has its own copy of the module with the functions."""
    with functions_forgotten():
        yield
