"""A folder of pictures with a subfolder for each class."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import tensorflow as tf

from tfdp.config.checks import a_path, at_least
from tfdp.config.section import Section, setting
from tfdp.data.checking import leave_out
from tfdp.data.examples import TrainingData
from tfdp.data.sources.base import RowSource, Tickets
from tfdp.data.sources.pictures import decode_picture
from tfdp.data.sources.registry import Context, Format
from tfdp.errors import DataError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif")


@dataclass(frozen=True, kw_only=True)
class ImageFolderOptions(Section):
    """Which folder, and how large its pictures become."""

    directory: str = setting("Folder with a subfolder of training pictures per class.", a_path)
    validation: str | None = setting(
        "Such a folder of validation pictures; null: none.", a_path, default=None
    )
    height: int | None = setting(
        "Rows of pixels, to which pictures are scaled; null: as the first picture, and all others "
        "must have its size.",
        at_least(1),
        default=None,
    )
    width: int | None = setting("Columns of pixels, as height.", at_least(1), default=None)
    channels: int = setting("1 for grey levels, 3 for colours.", at_least(1), default=3)


class ImageFolder(RowSource):
    """Pictures in files, each read and decoded when its turn comes.

    Args:
      files: names of the files.
      labels: class number of each.
      classes: how many classes there are.
      shape: `(height, width, channels)` of the pictures.
      resize: whether to scale pictures of another size; otherwise they are an error.
      place: what to call the examples in messages.
    """

    def __init__(
        self,
        files: Sequence[str],
        labels: Sequence[int],
        *,
        classes: int,
        shape: tuple[int, int, int],
        resize: bool,
        place: str = "training data",
    ) -> None:
        self.place = place
        self.classes = classes
        self._shape = shape
        self._resize = resize
        self._use(list(files), list(labels))

    def _use(self, files: list[str], labels: list[int]) -> None:
        self.files, self.labels = files, labels
        with tf.device("CPU:0"):
            self._paths = tf.constant(files, tf.string)
            self._labels = tf.constant(labels, tf.int64)

    @property
    def rows(self) -> int:
        return len(self.files)

    def read(self, tickets: Tickets) -> tuple[Any, ...]:
        pictures = tf.map_fn(
            lambda file: decode_picture(tf.io.read_file(file), self._shape, resize=self._resize),
            tf.gather(self._paths, tickets["at"]),
            fn_output_signature=tf.TensorSpec(self._shape, tf.uint8),
        )
        return pictures, tf.gather(self._labels, tickets["at"])

    def where(self, at: int) -> str:
        return self.files[at]

    def describe(self) -> str:
        return repr((type(self).__name__, self.labels, self._shape, self._resize))

    def fingerprint(self) -> int:
        """Of the names below the folder, and the labels."""
        relative = [str(Path(*Path(name).parts[-2:])) for name in self.files]
        return crc32(repr((relative, self.labels)).encode()) & 0x7FFFFFFF

    def without(self, rows: Sequence[int]) -> ImageFolder:
        """The same source, without some rows."""
        kept = np.setdiff1d(np.arange(self.rows), rows)
        other = copy.copy(self)
        other._use([self.files[i] for i in kept], [self.labels[i] for i in kept])
        return other


def open_folder(
    directory: str,
    options: ImageFolderOptions,
    context: Context,
    place: str,
    names: Sequence[str] | None = None,
) -> tuple[ImageFolder, list[str]]:
    """The pictures below a folder, and the names of the classes, sorted.

    Args:
      directory: the folder.
      options: of the source.
      context: of the run.
      place: what to call the examples in messages.
      names: of the classes, where they are known already.

    Raises:
      DataError: no such folder, no subfolders, no pictures, or a class that is not known.
    """
    folder = context.directory / Path(directory).expanduser()
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder.")
    found = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    if not found:
        raise DataError(f"{folder}: has no subfolders; expected one for each class.")
    strange = sorted(set(found) - set(names or found))
    if strange:
        raise DataError(
            f"{folder}: the class {strange[0]!r} is not among the training classes: "
            f"{', '.join(names or ())}."
        )
    names = list(names or found)
    files: list[str] = []
    labels: list[int] = []
    for name in found:
        here = sorted(
            str(path) for path in (folder / name).rglob("*") if path.suffix.lower() in SUFFIXES
        )
        if not here:
            raise DataError(f"{folder / name}: has no pictures ({', '.join(SUFFIXES)}).")
        files += here
        labels += [names.index(name)] * len(here)
    source = ImageFolder(
        files,
        labels,
        classes=len(names),
        shape=_shape(options, files[0]),
        resize=options.height is not None,
        place=place,
    )
    return (leave_out(source) if context.on_error == "skip" else source), names


def load(options: ImageFolderOptions, context: Context) -> TrainingData:
    """Training and validation pictures, to be read while training."""
    if options.channels not in (1, 3):
        raise DataError(f"data.arguments.channels: must be 1 or 3, got {options.channels}.")
    if (options.height is None) != (options.width is None):
        raise DataError("data.arguments: set both height and width, or neither.")
    train, names = open_folder(options.directory, options, context, "training data")
    if options.validation is None:
        return TrainingData(train)
    validation, _ = open_folder(options.validation, options, context, "validation data", names)
    validation._shape = train._shape
    return TrainingData(train, validation)


def _shape(options: ImageFolderOptions, first: str) -> tuple[int, int, int]:
    if options.height is not None and options.width is not None:
        return options.height, options.width, options.channels
    try:
        picture = tf.io.decode_image(tf.io.read_file(first), expand_animations=False)
    except tf.errors.OpError as error:
        raise DataError(
            f"{first}: cannot be read as a picture: {error.message}",
            hint="Set data.arguments.height and width, so that the size is known without it.",
        ) from error
    return int(picture.shape[0]), int(picture.shape[1]), options.channels


FORMAT = Format("image_folder", ImageFolderOptions, load)
