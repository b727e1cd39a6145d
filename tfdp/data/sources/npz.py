"""NumPy archives (.npz)."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfdp.config.checks import a_path, not_blank
from tfdp.config.section import Section, setting
from tfdp.data.arrays import Arrays, rows_of
from tfdp.data.examples import TrainingData
from tfdp.data.sources.columns import arrange, check_names
from tfdp.data.sources.files import find_files
from tfdp.data.sources.registry import Context, Format
from tfdp.errors import DataError


@dataclass(frozen=True, kw_only=True)
class NpzOptions(Section):
    """Which archive, and which arrays in it."""

    file: str = setting("The archive.", a_path)
    validation: str | None = setting(
        "An archive of validation examples; null: none.", a_path, default=None
    )
    inputs: tuple[str, ...] = setting("Names of the arrays that are inputs.", default=("x",))
    target: str = setting("Name of the array of targets.", not_blank, default="y")
    weight: str | None = setting(
        "Name of the array of the examples' weights; null: none.", not_blank, default=None
    )


def load(options: NpzOptions, context: Context) -> TrainingData:
    """The rows of one archive, or of two."""
    train = _rows(options.file, options, context, "file")
    if options.validation is None:
        return TrainingData(train)
    return TrainingData(train, _rows(options.validation, options, context, "validation"))


def _rows(name: str, options: NpzOptions, context: Context, key: str) -> Arrays:
    (path,) = find_files(name, context, f"data.arguments.{key}")[:1]
    wanted = [*options.inputs, options.target, *([options.weight] if options.weight else [])]
    columns = _read(path, wanted)
    return rows_of(arrange(columns, options.inputs, options.target, options.weight), path)


def _read(path: str, names: list[str]) -> dict[str, Any]:
    try:
        with np.load(Path(path), allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise DataError(f"{path}: is a single array, not an archive (.npz) of arrays.")
            check_names(names, archive.files, path)
            return {name: archive[name] for name in names}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: cannot be read as a NumPy archive: {error}") from error


FORMAT = Format("npz", NpzOptions, load)
