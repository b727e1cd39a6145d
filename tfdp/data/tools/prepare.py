"""Prepares data sets of tensorflow-datasets from files on this machine; nothing is downloaded."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tfdp.config.suggest import unknown
from tfdp.errors import ConfigError, DataError, RunError

BUILDERS: Final[Mapping[str, tuple[str, str, str]]] = {
    "fashion_mnist_local": (
        "tfdp.data.tools.fashion_mnist_local",
        "FashionMnistLocal",
        "/usr/share/datasets/fashion-mnist",
    ),
}
"""By name: module, class, and where the files usually lie."""


@dataclass(frozen=True)
class Prepared:
    """A data set that the source ``tfds`` can read.

    Attributes:
      name: of the data set.
      folder: of the data.
      data_dir: what ``data.arguments.data_dir`` has to be.
      rows: by split.
      already: whether it had been prepared before.
    """

    name: str
    folder: Path
    data_dir: Path
    rows: dict[str, int]
    already: bool


def prepare(name: str, files: Path | None, data_dir: Path) -> Prepared:
    """Writes a data set in the form of tensorflow-datasets.

    Args:
      name: one of `BUILDERS`.
      files: folder with the original files; None: where a Debian package puts them.
      data_dir: folder of prepared data sets.

    Raises:
      ConfigError: no such data set.
      DataError: files are missing or damaged; nothing half prepared is left.
      RunError: the disk fails.
    """
    if name not in BUILDERS:
        raise ConfigError(unknown(name, BUILDERS, what="data set"))
    module, builder_class, usual = BUILDERS[name]
    source = (files or Path(usual)).expanduser()
    builder = _builder(module, builder_class, data_dir)
    folder = Path(builder.data_path)
    already = folder.is_dir()
    if not already:
        if not source.is_dir():
            raise DataError(
                f"{source}: no such directory of original files.",
                hint="Name it with --from; on Debian: apt install dataset-fashion-mnist.",
            )
        _prepare(builder, source, data_dir)
    rows = {split: int(info.num_examples) for split, info in builder.info.splits.items()}
    return Prepared(name, folder, data_dir, rows, already)


def _builder(module: str, builder_class: str, data_dir: Path) -> Any:
    # Imported here: it takes seconds.
    return getattr(importlib.import_module(module), builder_class)(data_dir=str(data_dir))


def _prepare(builder: Any, source: Path, data_dir: Path) -> None:
    import tensorflow_datasets as tfds

    tfds.disable_progress_bar()
    config = tfds.download.DownloadConfig(
        manual_dir=str(source), compute_stats=tfds.download.ComputeStatsMode.SKIP
    )
    try:
        builder.download_and_prepare(
            download_dir=str(data_dir / "downloads"), download_config=config
        )
    except OSError as error:
        raise RunError(f"{data_dir}: cannot be written: {error.strerror or error}.") from error
    finally:
        # Made in any case, and empty, as nothing is downloaded.
        for made in (data_dir / "downloads" / "extracted", data_dir / "downloads"):
            if made.is_dir() and not any(made.iterdir()):
                made.rmdir()
