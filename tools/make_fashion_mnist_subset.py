"""Rebuilds tfdp/data/assets/fashion_mnist_20k.npz from the original Fashion-MNIST files.

    python tools/make_fashion_mnist_subset.py DIRECTORY OUTPUT.npz

DIRECTORY holds the four ``*-ubyte.gz`` files, for example those of the Debian package
dataset-fashion-mnist. The same input gives the same bytes (zlib's own version aside, which is why
the checksums of the *contents* are printed too): the rows come from a seeded generator, the same
number of each class, and the archive carries no time stamps.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
import zipfile
from pathlib import Path

import numpy as np

from tfdp.data.idx import read_idx
from tfdp.errors import TfdpError

SEED = 20170825  # the day the data set was published
CLASSES = 10
PER_CLASS = {"train": 1800, "t10k": 200}
NAMES = {"train": "train", "t10k": "test"}


def stratified_rows(labels: np.ndarray, per_class: int, rng: np.random.Generator) -> np.ndarray:
    """Row numbers, in the original order, of `per_class` random examples of every class."""
    chosen = [
        rng.choice(np.flatnonzero(labels == label), size=per_class, replace=False)
        for label in range(CLASSES)
    ]
    return np.sort(np.concatenate(chosen))


def subset(directory: Path) -> dict[str, np.ndarray]:
    """The four arrays of the subset: x_train, y_train, x_test, y_test (uint8)."""
    rng = np.random.Generator(np.random.PCG64(SEED))
    arrays = {}
    for prefix, per_class in PER_CLASS.items():
        labels = read_idx(directory / f"{prefix}-labels-idx1-ubyte.gz")
        images = read_idx(directory / f"{prefix}-images-idx3-ubyte.gz")
        rows = stratified_rows(labels, per_class, rng)
        arrays[f"x_{NAMES[prefix]}"] = images[rows]
        arrays[f"y_{NAMES[prefix]}"] = labels[rows]
    return arrays


def archive(arrays: dict[str, np.ndarray]) -> bytes:
    """An .npz file of `arrays`: np.load reads it without pickle."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # dated 1980-01-01, whatever the clock says
            entry.compress_type = zipfile.ZIP_DEFLATED
            content = io.BytesIO()
            np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
            file.writestr(entry, content.getvalue(), compresslevel=9)
    return buffer.getvalue()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="folder with the four *-ubyte.gz files")
    parser.add_argument("output", type=Path, help="the .npz file to write")
    arguments = parser.parse_args()
    try:
        arrays = subset(arguments.directory)
    except TfdpError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    content = archive(arrays)
    arguments.output.write_bytes(content)
    print(f"{hashlib.sha256(content).hexdigest()}  {arguments.output.name} ({len(content)} bytes)")
    for name, array in arrays.items():
        print(f"{hashlib.sha256(array.tobytes()).hexdigest()}  {name} {array.shape}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
