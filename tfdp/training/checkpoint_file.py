"""One checkpoint as a file: arrays and a JSON text, each with a checksum, bit for bit.

The file is a ``.npz`` that NumPy opens: the arrays by number, beside ``state.json`` with their
names and everything else. `write` leaves the whole file or none; `read` tells a damaged file from a
good one: ZIP has a CRC of each member, and the text a SHA-256 of each array.

This module does not load TensorFlow.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfdp.errors import RunError
from tfdp.training.files import replacing

FORMAT = 3

_STATE = "state.json"
_READ_ERRORS = (OSError, EOFError, zipfile.BadZipFile, KeyError, TypeError, ValueError)


class DamagedCheckpointError(RunError):
    """The file is not what was written; an earlier checkpoint may be."""


def write(path: Path, arrays: Sequence[np.ndarray], state: Mapping[str, Any]) -> None:
    """Writes a checkpoint, which is there completely or not at all.

    Args:
      path: of the file.
      arrays: of any dtype that NumPy and ml_dtypes know.
      state: what else belongs to it; JSON can hold it.

    Raises:
      RunError: the disk is full or fails.
    """
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        described = []
        for number, array in enumerate(arrays):
            described.append({"dtype": array.dtype.name, "sha256": _digest(array)})
            _write_array(archive, _member(number), array)
        content = {"format": FORMAT, "arrays": described, **state}
        archive.writestr(_STATE, json.dumps(content, indent=1))


def read(path: Path) -> tuple[list[np.ndarray], dict[str, Any]]:
    """The arrays and the state of a checkpoint.

    Raises:
      DamagedCheckpointError: the file is cut short, changed, or none of ours.
      RunError: another version of tfdp has written it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            state = json.loads(archive.read(_STATE))
            _check_format(state["format"], path)
            arrays = [
                _read_array(archive, _member(number), each["dtype"])
                for number, each in enumerate(state["arrays"])
            ]
            for number, (array, each) in enumerate(zip(arrays, state["arrays"], strict=True)):
                if _digest(array) != each["sha256"]:
                    raise ValueError(f"array {number} is not what was written")
    except _READ_ERRORS as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DamagedCheckpointError(f"{path}: the checkpoint is damaged: {reason}.") from error
    return arrays, state


def read_state(path: Path) -> dict[str, Any]:
    """The state alone, without a look at the arrays.

    Raises:
      DamagedCheckpointError: it cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            state: dict[str, Any] = json.loads(archive.read(_STATE))
            return state
    except _READ_ERRORS as error:
        raise DamagedCheckpointError(f"{path}: the checkpoint is damaged: {error}.") from error


def _check_format(number: Any, path: Path) -> None:
    if number == FORMAT:
        return
    newer = isinstance(number, int) and number > FORMAT
    raise RunError(
        f"{path}: has format {number}, but this tfdp reads format {FORMAT}.",
        hint=f"It was written by {'a newer' if newer else 'an older'} tfdp: use that one to go on "
        "with the run, or start another run.",
    )


def _member(number: int) -> str:
    return f"{number:05d}.npy"


def _bits(array: np.ndarray) -> np.ndarray:
    # .npy has no name for bfloat16 and its like: their bits are stored, and the state names them.
    return array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(_bits(array)).data).hexdigest()


def _write_array(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    with archive.open(name, "w", force_zip64=True) as file:
        np.lib.format.write_array(file, _bits(array), allow_pickle=False)


def _read_array(archive: zipfile.ZipFile, name: str, dtype: str) -> np.ndarray:
    content = io.BytesIO(archive.read(name))
    array: np.ndarray = np.lib.format.read_array(content, allow_pickle=False)
    return array if array.dtype.name == dtype else array.view(_extended_dtype(dtype))


def _extended_dtype(name: str) -> np.dtype:
    import ml_dtypes  # TensorFlow depends on it

    return np.dtype(getattr(ml_dtypes, name))
