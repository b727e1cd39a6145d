"""IDX files, written here by hand from the format's definition."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tfdp.data.idx import read_idx
from tfdp.errors import DataError

TWO_BY_THREE = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255])


@pytest.mark.parametrize("name", ["x-idx2-ubyte", "x-idx2-ubyte.gz"])
def test_reads_rows_in_order(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(TWO_BY_THREE, mtime=0) if name.endswith(".gz") else TWO_BY_THREE)
    array = read_idx(path)
    assert array.dtype == np.uint8
    assert array.tolist() == [[1, 2, 3], [4, 5, 255]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an IDX file"),
        (b"\0\0\x0d\x01\0\0\0\0", "not an IDX file"),  # 0x0d: floats
        (b"PK\3\4", "not an IDX file"),
        (TWO_BY_THREE[:-1], r"shape \(2, 3\), 6 bytes, but 5 bytes follow"),
        (TWO_BY_THREE + b"\0", "but 7 bytes follow"),
        (TWO_BY_THREE[:6], "ends within its header, after 6 bytes"),
    ],
)
def test_refuses(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


def test_refuses_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_idx(tmp_path / "absent.gz")


@pytest.mark.parametrize("content", [b"not gzip", gzip.compress(TWO_BY_THREE, mtime=0)[:-12]])
def test_refuses_a_damaged_archive(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match="cannot be read"):
        read_idx(path)
