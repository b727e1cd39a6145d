"""Data sets of tensorflow-datasets that have been prepared on this machine, by name."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfdp.config.checks import a_path, not_blank
from tfdp.config.section import Section, setting
from tfdp.data.arrays import Arrays
from tfdp.data.checking import leave_out
from tfdp.data.examples import TrainingData
from tfdp.data.materialize import materialize
from tfdp.data.sources.base import Tickets
from tfdp.data.sources.columns import arrange, check_names, checked
from tfdp.data.sources.framing import Segment
from tfdp.data.sources.registry import Context, Format
from tfdp.data.sources.tfrecord import TFRecordSource
from tfdp.errors import DataError

_FITS_BYTES = 2**30


@dataclass(frozen=True, kw_only=True)
class TfdsOptions(Section):
    """Which data set, and what of it."""

    dataset: str = setting(
        "Name, and where there are several, config and version: name/config:version.", not_blank
    )
    data_dir: str | None = setting(
        "Folder of prepared data sets; null: TFDS_DATA_DIR, else ~/tensorflow_datasets.",
        a_path,
        default=None,
    )
    split: str = setting('Training examples, as in "train" or "train[:80%]".', not_blank,
                         default="train")  # fmt: skip
    validation: str | None = setting(
        "Split of the validation examples; null: none.", not_blank, default=None
    )
    inputs: tuple[str, ...] = setting(
        "Features that are inputs; empty: what the data set itself calls its input.", default=()
    )
    target: str | None = setting(
        "Feature that is the target; null: what the data set itself calls its target.",
        not_blank,
        default=None,
    )
    in_memory: bool | None = setting(
        "Whether to decode all examples into memory at the start, where they are rows that can be "
        "read in any order; null: if they take less than 1 GiB there.",
        default=None,
    )


class TfdsSource(TFRecordSource):
    """A split of a prepared data set, in its TFRecord files."""

    def __init__(
        self,
        segments: Sequence[Segment],
        decoder: Any,
        *,
        inputs: Sequence[str],
        target: str,
        classes: int | None,
        place: str,
    ) -> None:
        super().__init__(segments, {}, inputs=inputs, target=target, classes=classes, place=place)
        self._decoder = decoder
        spec = decoder.get_tensor_spec()
        self._spec = {name: spec[name] for name in (*inputs, target)}

    @property
    def example_bytes(self) -> int | None:
        """Memory of one example, or None where its shape is not fixed."""
        leaves = tf.nest.flatten(self._spec)
        if not all(leaf.shape.is_fully_defined() for leaf in leaves):
            return None
        return sum(math.prod(leaf.shape) * (leaf.dtype.size or 0) for leaf in leaves)

    def read(self, tickets: Tickets) -> tuple[Any, ...]:
        def decode(record: tf.Tensor) -> dict[str, Any]:
            example = self._decoder.deserialize_example(record)
            return {name: example[name] for name in self._spec}

        columns = tf.map_fn(decode, tickets["record"], fn_output_signature=self._spec)
        return checked(arrange(columns, self._inputs, self._target, None), self.classes)


def load(options: TfdsOptions, context: Context) -> TrainingData:
    """Training and validation examples of a data set that has been prepared.

    Raises:
      DataError: it has not been prepared (nothing is downloaded here), has no such split or
        feature, or is stored in another format than TFRecord.
    """
    folder = prepared_folder(options.dataset, _data_dir(options, context))
    builder = _builder(folder)
    train = _split(builder, options, context, options.split, "training data")
    if options.validation is None:
        return TrainingData(train)
    return TrainingData(
        train, _split(builder, options, context, options.validation, "validation data")
    )


def prepared_folder(dataset: str, data_dir: Path) -> Path:
    """Where a data set lies that was prepared.

    Args:
      dataset: ``name``, ``name/config``, ``name:version`` or ``name/config:version``.
      data_dir: folder of prepared data sets.

    Raises:
      DataError: it is not there, or there are several and the name does not say which.
    """
    path, _, version = dataset.partition(":")
    name, _, config = path.partition("/")
    found = sorted((data_dir / name).glob("**/dataset_info.json"))
    places = [info.parent for info in found]
    if version:
        places = [place for place in places if place.name == version]
    if config:
        places = [place for place in places if place.parent.name == config]
    if not places:
        raise DataError(
            f"data.arguments.dataset: {dataset!r} has not been prepared in {data_dir}.",
            hint="Prepare it once, where there is a network (tfdp never downloads): python -c "
            f"\"import tensorflow_datasets as tfds; tfds.builder('{path}', "
            f"data_dir='{data_dir}').download_and_prepare()\"",
        )
    configs = {place.parent for place in places}
    if len(configs) > 1:
        known = ", ".join(sorted(f"{name}/{place.name}" for place in configs))
        raise DataError(f"data.arguments.dataset: {dataset!r} may be one of several: {known}.")
    return max(
        places, key=lambda place: [int(n) if n.isdigit() else 0 for n in place.name.split(".")]
    )


def _data_dir(options: TfdsOptions, context: Context) -> Path:
    if options.data_dir is not None:
        return context.directory / Path(options.data_dir).expanduser()
    return Path(os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets").expanduser()


def _builder(folder: Path) -> Any:
    import tensorflow_datasets as tfds  # slow to import, and not needed by the other sources

    try:
        builder = tfds.builder_from_directory(str(folder))
    except Exception as error:  # tensorflow-datasets raises many kinds
        raise DataError(f"{folder}: cannot be read as a prepared data set: {error}") from error
    if builder.info.file_format != tfds.core.file_adapters.FileFormat.TFRECORD:
        raise DataError(
            f"{folder}: is stored as {builder.info.file_format.value}; tfdp reads tfrecord.",
            hint='Prepare it with tfds.builder(..., file_format="tfrecord").',
        )
    return builder


def _split(
    builder: Any, options: TfdsOptions, context: Context, split: str, place: str
) -> Arrays | TfdsSource:
    info = builder.info
    name = f"{place} ({info.full_name}, split {split})"
    if not hasattr(info.features, "keys"):
        raise DataError(f"{name}: an example is no dict of features.")
    keys: tuple[Any, ...] = info.supervised_keys or ()
    target = options.target or (keys[1] if len(keys) > 1 else None)
    inputs = options.inputs or ((keys[0],) if keys else ())
    if target is None or not inputs or not all(isinstance(key, str) for key in (*inputs, target)):
        raise DataError(
            f"{name}: does not say what is input and what is target.",
            hint=f"Set data.arguments.inputs and target to some of {', '.join(info.features)}.",
        )
    check_names([*inputs, target], list(info.features), name)
    try:
        instructions = info.splits[split].file_instructions
    except Exception as error:  # an unknown split, or a slice that cannot be read
        known = ", ".join(sorted(info.splits))
        raise DataError(f"{name}: there is no such split ({error}); known: {known}.") from error
    source = TfdsSource(
        [_segment(part) for part in instructions],
        info.features,
        inputs=inputs,
        target=target,
        classes=getattr(info.features[target], "num_classes", None),
        place=name,
    )
    missing = [file for file in source.files if not Path(file).is_file()]
    if missing:
        raise DataError(f"{missing[0]}: there is no such file; prepare the data set again.")
    if context.on_error == "skip":
        source = leave_out(source)
    return materialize(source) if _fits(source, options.in_memory) else source


def _segment(part: Any) -> Segment:
    records = part.examples_in_shard - part.skip if part.take == -1 else part.take
    return Segment(str(part.filename), "", part.skip, part.skip, records)


def _fits(source: TfdsSource, wanted: bool | None) -> bool:
    if wanted is not None or source.example_bytes is None:
        return bool(wanted)
    return source.rows * source.example_bytes <= _FITS_BYTES


FORMAT = Format("tfds", TfdsOptions, load)
