"""The framing of TFRecord files: where each record begins, and where a file is damaged.

A record is its length (8 bytes, little-endian), the masked CRC-32C of the length (4 bytes), the
data, and the masked CRC-32C of the data (4 bytes).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import BinaryIO

import tensorflow as tf

from tfdp.errors import DataError

_HEADER = 12
_FOOTER = 4

_LENGTH = struct.Struct("<Q").unpack_from

REPAIR = "Repair or remove it, or set data.on_error: skip to leave out what cannot be read."

FRAMING_BYTES = _HEADER + _FOOTER
"""What a record takes in a file besides its data."""


@dataclass(frozen=True)
class Segment:
    """Good records of one file that follow one another.

    Attributes:
      file: its name.
      compression: "" or "GZIP".
      skip: records to leave out at the start of the file.
      first: number in the file of the first record that is used.
      records: how many there are, or None for all to the end.
      offsets: where each record begins, in bytes, if they follow after a damaged one: TensorFlow
        reads no file past its first damage.
    """

    file: str
    compression: str = ""
    skip: int = 0
    first: int = 0
    records: int | None = None
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True)
class Damage:
    """What is wrong with a file from some record on.

    Attributes:
      record: number of the first record that cannot be read.
      reason: what is wrong, in words.
      lost: how many records are lost; None where the framing is lost with them.
    """

    record: int
    reason: str
    lost: int | None


def compression_of(file: str) -> str:
    """How a file is compressed, by its first two bytes."""
    with open(file, "rb") as stream:
        return "GZIP" if stream.read(2) == b"\x1f\x8b" else ""


def record_offsets(file: str) -> Iterator[int]:
    """Where the records of an uncompressed file begin, by their lengths alone, and where the last
    one ends: beyond the end of the file, if that is cut short.
    """
    size = Path(file).stat().st_size
    offset = 0
    if size:
        with open(file, "rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as content:
            while offset + 8 <= size:
                yield offset
                offset += _LENGTH(content, offset)[0] + FRAMING_BYTES
    yield offset


def count_records(file: str, compression: str) -> int:
    """How many records a file has, without reading the data of an uncompressed one.

    Raises:
      DataError: the file is damaged or cut short.
    """
    if compression:
        records = tf.data.TFRecordDataset(file, compression)
        try:
            return _count(records)
        except tf.errors.OpError as error:
            reason = brief_message(error)
            raise DataError(f"{file}: the file is damaged or cut short ({reason}).") from error
    count, end, size = -1, 0, 0
    try:
        size = Path(file).stat().st_size
        for end in record_offsets(file):  # noqa: B007 (the last one is the end of the file)
            count += 1
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror}.") from error
    if end != size:
        reason = next((damage.reason for damage in examine(file)[1]), "the file has changed")
        raise DataError(f"{file}: {reason}.", hint=REPAIR)
    return count


def examine(file: str) -> tuple[list[Segment], list[Damage]]:
    """Reads a file from front to back; the good parts of it, and what is wrong with the rest."""
    compression = compression_of(file)
    records = tf.data.TFRecordDataset(file, compression)
    good = _count(records.ignore_errors())
    segments = [Segment(file, compression, records=good)] if good else []
    reason = _failure(records.skip(good))
    if compression:
        fault = f"the file is damaged or cut short ({reason})"
        return segments, [] if reason is None else [_lost(good, fault)]
    # Also where TensorFlow has found nothing: it takes a cut within a header for the end.
    after, damages = _past_damage(file, _end_of(file, good), good)
    return segments + after, damages


def _end_of(file: str, records: int) -> int:
    """Where the first `records` records of a file end, in bytes."""
    offset = 0
    with open(file, "rb") as stream:
        for _ in range(records):
            stream.seek(offset)
            offset += struct.unpack("<Q", stream.read(8))[0] + FRAMING_BYTES
    return offset


def read_record(file: str, offset: int) -> bytes:
    """The data of the record that begins at `offset` of an uncompressed file."""
    with open(file, "rb") as stream:
        stream.seek(offset)
        (length,) = struct.unpack("<Q", stream.read(8))
        stream.seek(4, 1)
        return stream.read(length)


def _past_damage(file: str, offset: int, number: int) -> tuple[list[Segment], list[Damage]]:
    """Goes on in Python from the first damage, a few megabytes a second."""
    segments: list[Segment] = []
    damages: list[Damage] = []
    offsets: list[int] = []

    def close() -> None:
        if offsets:
            first = number - len(offsets)
            segments.append(Segment(file, "", 0, first, len(offsets), tuple(offsets)))
            offsets.clear()

    size = Path(file).stat().st_size
    with open(file, "rb") as stream:
        while offset < size:
            fault, end = _fault_at(stream, offset, size)
            if fault is not None:
                close()
            if fault is not None and end is None:
                damages.append(_lost(number, fault))
                break
            if fault is None:
                offsets.append(offset)
            else:
                damages.append(Damage(number, fault, 1))
            number += 1
            offset = end or size
    close()
    return segments, damages


def _fault_at(stream: BinaryIO, offset: int, size: int) -> tuple[str | None, int | None]:
    """What is wrong with the record at `offset`, and where the next one begins, if known."""
    stream.seek(offset)
    header = stream.read(_HEADER)
    if len(header) < _HEADER:
        return f"the file ends at byte {size}, within the record at byte {offset}", None
    length, crc = struct.unpack("<QI", header)
    if _masked_crc(header[:8]) != crc:
        return f"the length of the record at byte {offset} is damaged", None
    end = offset + length + FRAMING_BYTES
    if end > size:
        return f"the file ends at byte {size}, but the record at byte {offset} goes to {end}", None
    data, footer = stream.read(length), stream.read(_FOOTER)
    if struct.unpack("<I", footer)[0] != _masked_crc(data):
        return f"the record at byte {offset} is damaged (its checksum differs)", end
    return None, end


def _lost(number: int, reason: str) -> Damage:
    return Damage(number, f"{reason}; nothing after it can be read", None)


def _count(records: tf.data.Dataset) -> int:
    return int(records.reduce(tf.constant(0, tf.int64), lambda count, _: count + 1))


def _failure(records: tf.data.Dataset) -> str | None:
    try:
        next(iter(records), None)
    except tf.errors.OpError as error:
        return brief_message(error)
    return None


def brief_message(error: tf.errors.OpError) -> str:
    """What TensorFlow says of a damaged file, without where it found out."""
    return str(error.message).split("}} ")[-1].split(" [Op:")[0]


def _masked_crc(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _table()[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    """Remainders of CRC-32C (Castagnoli) for one byte."""
    table = []
    for remainder in range(256):
        for _ in range(8):
            remainder = (remainder >> 1) ^ (0x82F63B78 if remainder & 1 else 0)
        table.append(remainder)
    return tuple(table)
