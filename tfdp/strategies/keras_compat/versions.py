"""Which versions of TensorFlow and Keras the shims were written for, and the check."""

from __future__ import annotations

import importlib.metadata

from tfdp.cluster.supported import SUPPORTED
from tfdp.errors import UnsupportedError


def check() -> None:
    """Refuses versions that the shims do not know, and Keras on another backend.

    Raises:
        UnsupportedError: says what is installed, what is supported and how to get it.
    """
    import keras
    import tensorflow as tf

    check_backend(keras.backend.backend())
    check_version("tensorflow", tf.__version__)
    check_version("keras", keras.__version__)


def check_backend(backend: str) -> None:
    """Raises UnsupportedError unless Keras runs on TensorFlow."""
    if backend != "tensorflow":
        raise UnsupportedError(
            f"Keras runs on its {backend!r} backend, and tfdp trains on TensorFlow only.",
            hint='Set KERAS_BACKEND=tensorflow (or "backend" in ~/.keras/keras.json) before Keras '
            "is imported.",
        )


def check_version(package: str, version: str) -> None:
    """Raises UnsupportedError unless that version of the package is a supported one."""
    parts = version.split(".")
    try:
        minor = (int(parts[0]), int(parts[1]))
    except (IndexError, ValueError):
        minor = (0, 0)
    supported = SUPPORTED[package]
    if minor in supported:
        return
    known = " or ".join(f"{a}.{b}" for a, b in supported)
    raise UnsupportedError(
        f"{package} {version} is installed, and tfdp {_own_version()} relies on parts of "
        f"{package} that it has checked in version {known} only.",
        hint=f"Install {package} {known}, for example: pip install '{package}=={known}.*'",
    )


def _own_version() -> str:
    try:
        return importlib.metadata.version("tfdp")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
