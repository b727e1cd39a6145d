"""The bundled images, and the original files that a user may have."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from tests.data.originals import write_originals
from tfdp.data import images
from tfdp.data.images import CLASS_NAMES, SUBSET, SUBSET_SHA256, fashion_mnist
from tfdp.errors import DataError


def test_the_subset_has_the_promised_form() -> None:
    (x_train, y_train), (x_test, y_test) = fashion_mnist()
    assert (x_train.shape, x_test.shape) == ((18000, 28, 28), (2000, 28, 28))
    assert {a.dtype.name for a in (x_train, y_train, x_test, y_test)} == {"uint8"}
    assert np.bincount(y_train).tolist() == [1800] * 10
    assert np.bincount(y_test).tolist() == [200] * 10
    assert len(CLASS_NAMES) == 10


def test_no_image_is_in_both_parts() -> None:
    (x_train, _), (x_test, _) = fashion_mnist()
    train = {image.tobytes() for image in x_train}
    assert not any(image.tobytes() in train for image in x_test)


def test_the_notice_names_the_checksums() -> None:
    (x_train, y_train), (x_test, y_test) = fashion_mnist()
    notice = (SUBSET.parent / "README.md").read_text()
    for array in (x_train, y_train, x_test, y_test):
        assert hashlib.sha256(array.tobytes()).hexdigest() in notice
    assert SUBSET_SHA256 in notice
    assert "MIT License" in notice


def test_the_subset_is_a_few_megabytes() -> None:
    assert SUBSET.stat().st_size < 10_000_000


def test_one_changed_bit_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytearray(SUBSET.read_bytes())
    content[len(content) // 2] ^= 1
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes(content)
    monkeypatch.setattr(images, "SUBSET", damaged)
    with pytest.raises(DataError, match="are damaged"):
        fashion_mnist()


def test_a_missing_subset_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "SUBSET", tmp_path / "absent.npz")
    with pytest.raises(DataError, match=r"absent\.npz: .* cannot be read: No such file"):
        fashion_mnist()


@pytest.mark.parametrize("compress", [True, False])
def test_reads_the_original_files(tmp_path: Path, compress: bool) -> None:
    written = write_originals(tmp_path, train=5, test=3, compress=compress)
    (x_train, y_train), (x_test, y_test) = fashion_mnist(tmp_path)
    for found, expected in zip((x_train, y_train, x_test, y_test), written, strict=True):
        assert np.array_equal(found, expected)


def test_names_what_is_missing_in_the_directory(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such directory"):
        fashion_mnist(tmp_path / "absent")
    write_originals(tmp_path, train=5, test=3)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match=r"neither t10k-labels-idx1-ubyte\.gz nor"):
        fashion_mnist(tmp_path)


def test_refuses_images_and_labels_of_different_length(tmp_path: Path) -> None:
    write_originals(tmp_path / "a", train=5, test=3)
    write_originals(tmp_path / "b", train=6, test=3)
    name = "train-labels-idx1-ubyte.gz"
    (tmp_path / "a" / name).write_bytes((tmp_path / "b" / name).read_bytes())
    with pytest.raises(DataError, match="do not belong together"):
        fashion_mnist(tmp_path / "a")
