from __future__ import annotations

import pytest

from tfdp.bench.sizes import DEFAULT_SIZES, describe_size, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("4", 4), ("1kB", 1024), (" 64 MB ", 64 * 1024**2), ("1gb", 1024**3), ("8B", 8)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size
    assert parse_size(describe_size(size)) == size


@pytest.mark.parametrize("text", ["", "kB", "1.5MB", "-4", "4 apples", "4kB4", "٤"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="a size is a number and B, kB, MB or GB"):
        parse_size(text)


@pytest.mark.parametrize("text", ["0", "3", "4GB"])
def test_sizes_out_of_range(text: str) -> None:
    with pytest.raises(ValueError, match="a multiple of 4 bytes, up to 2 GB"):
        parse_size(text)


def test_the_default_goes_from_1_kb_to_64_mb() -> None:
    assert [describe_size(size) for size in (DEFAULT_SIZES[0], DEFAULT_SIZES[-1])] == [
        "1 kB",
        "64 MB",
    ]
