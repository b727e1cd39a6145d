"""The features of a serialized ``tf.train.Example``, as a config describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from tfdp.config.suggest import unknown
from tfdp.data.sources.pictures import decode_picture
from tfdp.errors import ConfigError

TYPES: Final = ("float32", "int64", "string", "image", "bytes")
_KEYS: Final = ("type", "shape", "default", "dtype")
_DTYPES: Final = ("uint8", "int8", "uint16", "int16", "int32", "int64", "float32", "float64")


@dataclass(frozen=True)
class Feature:
    """One feature.

    Attributes:
      type: "float32", "int64" and "string" are stored as such; "image" is an encoded PNG, JPEG,
        GIF or BMP, "bytes" the bytes of an array, as `ndarray.tobytes` gives them.
      shape: of one example; of an image `(height, width, channels)`.
      default: where an example lacks the feature; None: that is an error.
      dtype: of the array, for "bytes".
    """

    type: str
    shape: tuple[int, ...] = ()
    default: Any = None
    dtype: str = "uint8"

    def stored(self) -> tf.io.FixedLenFeature:
        """What to ask `tf.io.parse_example` for."""
        if self.type in ("image", "bytes"):
            return tf.io.FixedLenFeature([], tf.string)
        return tf.io.FixedLenFeature(self.shape, tf.as_dtype(self.type), self.default)

    def decode(self, stored: tf.Tensor) -> tf.Tensor:
        """From `(n,)` or `(n, *shape)` as stored to `(n, *shape)`."""
        if self.type == "bytes":
            dtype = tf.as_dtype(self.dtype)
            flat = tf.io.decode_raw(stored, dtype)
            return tf.reshape(flat, [tf.size(stored), *self.shape])
        if self.type != "image":
            return stored
        return tf.map_fn(
            lambda content: decode_picture(content, self.shape),
            stored,
            fn_output_signature=tf.TensorSpec(self.shape, tf.uint8),
        )


def read_features(described: Mapping[str, Any]) -> dict[str, Feature]:
    """The features of ``data.arguments.features``.

    Args:
      described: by name, a type or a mapping with `type`, `shape`, `default` and `dtype`.

    Raises:
      ConfigError: with every problem there is.
    """
    problems: list[str] = []
    features = {}
    for name, value in described.items():
        fields = {"type": value} if isinstance(value, str) else value
        found = _problems(fields)
        problems += [f"data.arguments.features.{name}: {problem}" for problem in found]
        if not found:
            features[name] = Feature(**{**fields, "shape": tuple(fields.get("shape", ()))})
    if problems:
        raise ConfigError(problems)
    return features


def _problems(fields: Any) -> list[str]:
    if not isinstance(fields, Mapping):
        return [f"must be a type ({', '.join(TYPES)}) or a mapping, got {fields!r}"]
    problems = [unknown(key, _KEYS, what="key") for key in fields if key not in _KEYS]
    if fields.get("type") not in TYPES:
        problems.append(unknown(str(fields.get("type")), TYPES, what="type"))
    shape = fields.get("shape", ())
    if not isinstance(shape, (list, tuple)) or not all(type(n) is int and n > 0 for n in shape):
        problems.append(f"shape must be a list of positive integers, got {shape!r}")
    elif fields.get("type") == "image" and (len(shape) != 3 or shape[2] not in (1, 3, 4)):
        problems.append(f"shape of an image must be [height, width, 1, 3 or 4], got {shape!r}")
    if fields.get("dtype", "uint8") not in _DTYPES:
        problems.append(unknown(str(fields["dtype"]), _DTYPES, what="dtype"))
    return problems
