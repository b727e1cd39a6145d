"""Python, TensorFlow and Keras, without loading any of them."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfdp.cluster.doctor.base import Finding, Patient, failed, passed, warned
from tfdp.cluster.supported import SUPPORTED

_PYTHON = ((3, 11), (3, 13))


def check_versions(patient: Patient) -> Iterator[Finding]:
    """The interpreter, the packages of `SUPPORTED`, TensorBoard, and the backend of Keras."""
    yield _python(sys.version_info[:2])
    for package in SUPPORTED:
        yield _package(package, _installed(package))
    yield _tensorboard(_installed("tensorboard"))
    yield _backend(patient.environ)


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _python(version: tuple[int, int]) -> Finding:
    first, last = (".".join(map(str, each)) for each in _PYTHON)
    text = ".".join(map(str, version))
    if _PYTHON[0] <= version <= _PYTHON[1]:
        return passed("python", text)
    return failed("python", f"{text} is not supported", f"Use Python {first} to {last}.")


def _package(package: str, version: str | None) -> Finding:
    known = " or ".join(f"{major}.{minor}" for major, minor in SUPPORTED[package])
    remedy = f"pip install '{package}=={known.rpartition(' ')[2]}.*'"
    if version is None:
        return failed(package, "is not installed", remedy)
    if any(version.startswith(f"{major}.{minor}.") for major, minor in SUPPORTED[package]):
        return passed(package, version)
    return failed(package, f"{version} is not supported, {known} is", remedy)


def _tensorboard(version: str | None) -> Finding:
    if version is not None:
        return passed("tensorboard", version)
    return warned(
        "tensorboard", "is not installed: no event files can be written", "pip install tensorboard"
    )


def _backend(environ: Mapping[str, str]) -> Finding:
    name, source = _configured_backend(environ)
    if name == "tensorflow":
        return passed("keras backend", f"tensorflow ({source})")
    return failed(
        "keras backend",
        f"{name} ({source}), and tfdp trains on tensorflow only",
        "Set KERAS_BACKEND=tensorflow.",
    )


def _configured_backend(environ: Mapping[str, str]) -> tuple[str, str]:
    if environ.get("KERAS_BACKEND"):
        return environ["KERAS_BACKEND"], "KERAS_BACKEND"
    home = Path(environ.get("KERAS_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".keras")
    try:
        settings = json.loads((home / "keras.json").read_text(encoding="utf-8"))
        name = settings.get("backend") if isinstance(settings, dict) else None
    except (OSError, ValueError):
        name = None
    if isinstance(name, str):
        return name, str(home / "keras.json")
    return "tensorflow", "the default"
