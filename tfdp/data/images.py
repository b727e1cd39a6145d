"""The real images that ship with tfdp: a subset of Fashion-MNIST.

18,000 training and 2,000 test images of clothes, 28x28 grey levels, ten balanced classes. Their
origin, licence and checksums are in ``tfdp/data/assets/README.md``.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np

from tfdp.data.idx import read_idx
from tfdp.errors import DataError

CLASS_NAMES = (
    "t-shirt/top", "trouser", "pullover", "dress", "coat",
    "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip

SUBSET = Path(__file__).parent / "assets" / "fashion_mnist_20k.npz"
SUBSET_SHA256 = "6a2d3a13acb26d8e565761b8e5832e299d6231e7c52484a4eba0cbe180453fec"

ImagesAndLabels = tuple[np.ndarray, np.ndarray]


def fashion_mnist(directory: str | Path | None = None) -> tuple[ImagesAndLabels, ImagesAndLabels]:
    """Fashion-MNIST: the bundled subset, or the full set from its original files.

    Args:
      directory: a folder with the four original files (``train-images-idx3-ubyte``,
        ``train-labels-idx1-ubyte``, ``t10k-images-...``, ``t10k-labels-...``, gzipped or not);
        None for the subset that ships with tfdp.

    Returns:
      ``(x_train, y_train), (x_test, y_test)``, all uint8: images `(n, 28, 28)` in 0..255 and
      labels `(n,)` in 0..9, whose names are `CLASS_NAMES`.

    Raises:
      DataError: a file is missing or damaged, or images and labels do not belong together.
    """
    if directory is None:
        return _bundled(SUBSET, SUBSET_SHA256)
    folder = Path(directory).expanduser()
    if not folder.is_dir():
        raise DataError(f"{folder}: no such directory of Fashion-MNIST files.")
    return _original(folder, "train"), _original(folder, "t10k")


def _bundled(path: Path, sha256: str) -> tuple[ImagesAndLabels, ImagesAndLabels]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path}: the images that ship with tfdp cannot be read: {error.strerror}.",
            hint="Install tfdp again, or name a directory with the original files.",
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise DataError(
            f"{path}: the images that ship with tfdp are damaged "
            f"(SHA-256 is {found}, expected {sha256}).",
            hint="Install tfdp again.",
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return (
            (arrays["x_train"], arrays["y_train"]),
            (arrays["x_test"], arrays["y_test"]),
        )


def _original(folder: Path, part: str) -> ImagesAndLabels:
    images_path = _find(folder, f"{part}-images-idx3-ubyte")
    labels_path = _find(folder, f"{part}-labels-idx1-ubyte")
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise DataError(
            f"{images_path} and {labels_path} do not belong together: images of shape "
            f"{images.shape}, labels of shape {labels.shape}; expected (n, 28, 28) and (n,)."
        )
    return images, labels


def _find(folder: Path, name: str) -> Path:
    for candidate in (folder / f"{name}.gz", folder / name):
        if candidate.is_file():
            return candidate
    raise DataError(f"{folder} has neither {name}.gz nor {name}.")
