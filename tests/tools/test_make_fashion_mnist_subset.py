"""The tool that makes the bundled images."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.data.originals import write_originals
from tfdp.data.images import SUBSET

DEADLINE_SECONDS = 120

ORIGINALS = Path("/usr/share/datasets/fashion-mnist")  # where Debian's package puts them


def run(repository: Path, *arguments: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.make_fashion_mnist_subset", *map(str, arguments)],
        cwd=repository,
        timeout=DEADLINE_SECONDS,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.multi_process
@pytest.mark.skipif(not ORIGINALS.is_dir(), reason="needs the Debian package dataset-fashion-mnist")
def test_the_originals_give_the_bundled_file(repository: Path, tmp_path: Path) -> None:
    output = tmp_path / "again.npz"
    done = run(repository, ORIGINALS, output)
    assert done.returncode == 0, done.stderr
    with np.load(output, allow_pickle=False) as again, np.load(SUBSET, allow_pickle=False) as ours:
        assert sorted(again) == sorted(ours)
        for name in ours:
            assert np.array_equal(again[name], ours[name])


@pytest.mark.multi_process
def test_rows_are_original_balanced_and_the_same_every_time(
    repository: Path, tmp_path: Path
) -> None:
    x, y, _, _ = write_originals(tmp_path, train=19_000, test=2_100)
    outputs = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for output in outputs:
        done = run(repository, tmp_path, output)
        assert done.returncode == 0, done.stderr
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    with np.load(outputs[0], allow_pickle=False) as subset:
        assert np.bincount(subset["y_train"]).tolist() == [1800] * 10
        label_of = {image.tobytes(): label for image, label in zip(x, y, strict=True)}
        found = zip(subset["x_train"], subset["y_train"], strict=True)
        assert all(label_of[image.tobytes()] == label for image, label in found)
        assert len({image.tobytes() for image in subset["x_train"]}) == 18_000


@pytest.mark.multi_process
def test_a_missing_file_is_an_error_without_traceback(repository: Path, tmp_path: Path) -> None:
    done = run(repository, tmp_path, tmp_path / "x.npz")
    assert done.returncode == 5
    assert "no such file" in done.stderr
    assert "Traceback" not in done.stderr
