"""TFRecord files of serialized ``tf.train.Example``s."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

import tensorflow as tf

from tfdp.config.checks import at_least, not_blank
from tfdp.config.section import Section, setting
from tfdp.data.checking import leave_out
from tfdp.data.examples import TrainingData
from tfdp.data.sources.base import StreamSource, Tickets
from tfdp.data.sources.columns import arrange, check_names, checked
from tfdp.data.sources.features import Feature, read_features
from tfdp.data.sources.files import WORKER, find_files
from tfdp.data.sources.framing import (
    Segment,
    compression_of,
    count_records,
    read_record,
    record_offsets,
)
from tfdp.data.sources.registry import Context, Format
from tfdp.errors import DataError

_log = logging.getLogger("tfdp.data")

_RECORD_BITS = 40


@dataclass(frozen=True, kw_only=True)
class TFRecordOptions(Section):
    """Which files, and what is in them."""

    files: str = setting(
        "Pattern of the training files; {worker} stands for the worker's number.", not_blank
    )
    validation: str | None = setting(
        "Pattern of the validation files; null: none.", not_blank, default=None
    )
    features: Mapping[str, Any] = setting(
        "By name, the type (float32, int64, string, image, bytes) or a mapping with type, shape, "
        "default and, for bytes, dtype.",
    )
    target: str = setting("The feature that is the target.", not_blank, default="label")
    inputs: tuple[str, ...] = setting(
        "The features that are inputs; empty: all but target and weight.", default=()
    )
    weight: str | None = setting(
        "The feature that is the weight of an example; null: none.", not_blank, default=None
    )
    classes: int | None = setting(
        "How many classes the labels tell apart; null: not known.", at_least(1), default=None
    )


class TFRecordSource(StreamSource):
    """Examples in TFRecord files, compressed (GZIP) or not.

    Args:
      segments: what to read.
      features: of an example, by name.
      inputs: names of the features that make up x.
      target: name of the feature that is y.
      weight: name of the feature that is the sample weight, or None.
      classes: how many classes the labels tell apart, or None.
      place: what to call the examples in messages.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        features: Mapping[str, Feature],
        *,
        inputs: Sequence[str],
        target: str,
        weight: str | None = None,
        classes: int | None = None,
        place: str = "training data",
    ) -> None:
        if not segments:
            raise DataError(f"{place}: there are no examples (0 records).")
        self.place = place
        self.classes = classes
        self._features = {
            name: feature for name, feature in features.items() if name in {*inputs, target, weight}
        }
        self._inputs, self._target, self._weight = list(inputs), target, weight
        self._use(segments)

    def _use(self, segments: Sequence[Segment]) -> None:
        self.parts = list(segments)
        self.segments = len(self.parts)
        self.files = list(dict.fromkeys(part.file for part in self.parts))
        self._count = cache(self._count_records)

    def count(self, segment: int) -> int:
        return self._count(segment)

    def _count_records(self, segment: int) -> int:
        part = self.parts[segment]
        if part.records is not None:
            return part.records
        return count_records(part.file, part.compression)

    def file_of(self, segment: int) -> str:
        return self.parts[segment].file

    def records(self, segment: tf.Tensor) -> tf.data.Dataset:
        def column(values: list[Any], dtype: Any) -> tf.Tensor:
            return tf.gather(tf.constant(values, dtype), segment)

        parts = self.parts
        file = column([part.file for part in parts], tf.string)
        compression = column([part.compression for part in parts], tf.string)
        records = tf.data.TFRecordDataset(file, compression)
        if any(part.skip for part in parts):
            records = records.skip(column([part.skip for part in parts], tf.int64))
        if any(part.records is not None for part in parts):
            limits = [-1 if p.records is None else 0 if p.offsets else p.records for p in parts]
            records = records.take(column(limits, tf.int64))
        if any(part.offsets for part in parts):
            offsets = tf.ragged.constant([part.offsets for part in parts], tf.int64)[segment]
            records = records.concatenate(_records_at(file, offsets))
        first = column([self._at(part, 0) for part in parts], tf.int64)
        return tf.data.Dataset.zip((tf.data.Dataset.range(first, tf.int64.max), records))

    def _at(self, part: Segment, number: int) -> int:
        return (self.files.index(part.file) << _RECORD_BITS) + part.first + number

    def read(self, tickets: Tickets) -> tuple[Any, ...]:
        stored = tf.io.parse_example(
            tickets["record"], {name: f.stored() for name, f in self._features.items()}
        )
        columns = {name: f.decode(stored[name]) for name, f in self._features.items()}
        return checked(arrange(columns, self._inputs, self._target, self._weight), self.classes)

    def where(self, at: int) -> str:
        file, record = self.files[at >> _RECORD_BITS], at & ((1 << _RECORD_BITS) - 1)
        if compression_of(file):
            return f"{file}: record {record}"
        offset = next(islice(record_offsets(file), record, None), None)
        return f"{file}: record {record}, byte {offset}"

    def describe(self) -> str:
        how = (self._features, self._inputs, self._target, self._weight, self.classes)
        return repr((type(self).__name__, self.parts, how))

    def fingerprint(self) -> int:
        """Of the sizes of the files: what is in them, the tickets themselves tell."""
        sizes = [Path(file).stat().st_size for file in self.files]
        return crc32(repr(sizes).encode()) & 0x7FFFFFFF

    def without(self, parts: Sequence[Segment]) -> TFRecordSource:
        """The same source, of other segments."""
        other = copy.copy(self)
        other._use(parts)
        return other


def _records_at(file: tf.Tensor, offsets: tf.Tensor) -> tf.data.Dataset:
    def read(offset: tf.Tensor) -> tf.Tensor:
        record = tf.numpy_function(
            lambda file, offset: read_record(file.decode(), int(offset)), [file, offset], tf.string
        )
        return tf.ensure_shape(record, [])

    return tf.data.Dataset.from_tensor_slices(offsets).map(read)


def open_files(
    pattern: str, options: TFRecordOptions, context: Context, key: str, place: str
) -> TFRecordSource:
    """The examples in the files that a pattern matches.

    Raises:
      ConfigError: the features cannot be read so.
      DataError: no files, no records, or names of features that there are none of.
    """
    features = read_features(options.features)
    wanted = [*options.inputs, options.target, *([options.weight] if options.weight else [])]
    check_names(wanted, list(features), "data.arguments.features")
    inputs = options.inputs or tuple(
        name for name in features if name not in (options.target, options.weight)
    )
    if not inputs:
        raise DataError("data.arguments.features: there is no feature but target and weight.")
    files = find_files(pattern, context, key)
    empty = [file for file in files if Path(file).stat().st_size == 0]
    if len(empty) == len(files):
        raise DataError(f"{key}: all {len(files)} files that {pattern!r} matches are empty.")
    for file in empty:
        _log.warning("%s is empty", file)
    parts = [Segment(file, compression_of(file)) for file in files if file not in empty]
    source = TFRecordSource(
        parts,
        features,
        inputs=inputs,
        target=options.target,
        weight=options.weight,
        classes=options.classes,
        place=place,
    )
    source.per_worker = WORKER in pattern
    return leave_out(source) if context.on_error == "skip" else source


def load(options: TFRecordOptions, context: Context) -> TrainingData:
    """Training and validation examples, to be read while training."""
    train = open_files(options.files, options, context, "data.arguments.files", "training data")
    if options.validation is None:
        return TrainingData(train)
    return TrainingData(
        train,
        open_files(
            options.validation, options, context, "data.arguments.validation", "validation data"
        ),
    )


FORMAT = Format("tfrecord", TFRecordOptions, load)
