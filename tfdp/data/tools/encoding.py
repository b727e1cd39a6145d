"""Examples as serialized ``tf.train.Example``s that the source ``tfrecord`` reads as they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfdp.errors import DataError

_BYTES = ("uint8", "int8", "uint16", "int16", "int32", "float64")
"""Stored as the bytes of the array, in its own type."""


@dataclass(frozen=True)
class Schema:
    """The features of an example, in the order of the columns.

    Attributes:
      features: by name, as ``data.arguments.features`` has them.
      inputs: names of the inputs.
      target: name of the target.
      weight: name of the weight, or None.
    """

    features: Mapping[str, dict[str, Any]]
    inputs: tuple[str, ...]
    target: str
    weight: str | None

    def arguments(self) -> dict[str, Any]:
        """Arguments of the source ``tfrecord``, but for the files."""
        found: dict[str, Any] = {
            "features": dict(self.features),
            "inputs": list(self.inputs),
            "target": self.target,
        }
        return found if self.weight is None else {**found, "weight": self.weight}


def schema_of(spec: Any, place: str) -> Schema:
    """How to store examples of some type.

    Args:
      spec: `(x, y)` or `(x, y, sample_weight)` of tensors or specs with a first axis of examples; x
        may be a dict.
      place: what to call the examples in messages.

    Raises:
      DataError: a type or a shape that cannot be stored.
    """
    x, y, *weight = spec
    if isinstance(x, (tuple, list)):
        raise DataError(
            f"{place}: inputs that are a {type(x).__name__} have no names, and are not converted.",
            hint="Give them as a dict.",
        )
    inputs = _names(x)
    target = _free("label", inputs)
    leaves = {**inputs, target: y}
    weight_name = None
    if weight:
        weight_name = _free("weight", leaves)
        leaves[weight_name] = weight[0]
    if isinstance(y, Mapping) or (weight and isinstance(weight[0], Mapping)):
        raise DataError(
            f"{place}: several targets or weights in one example cannot be converted.",
            hint="Convert one target at a time, or keep the source as it is.",
        )
    features = {name: _feature(leaf, f"{place}: {name}") for name, leaf in leaves.items()}
    return Schema(features, tuple(inputs), target, weight_name)


def serialize(schema: Schema, columns: tuple[Any, ...]) -> Iterator[bytes]:
    """The examples of a batch, one after the other; the same bytes for the same examples."""
    x, *rest = columns
    arrays = list(x.values()) if isinstance(x, Mapping) else [x]
    named = list(zip(schema.features.items(), [*arrays, *rest], strict=True))
    encoded = [(name, _encode(feature, np.asarray(values))) for (name, feature), values in named]
    for row in range(len(encoded[0][1])):
        features = tf.train.Features(feature={name: values[row] for name, values in encoded})
        # The order of a map's entries in serialized form is otherwise left open.
        yield tf.train.Example(features=features).SerializeToString(deterministic=True)


def _names(x: Any) -> dict[str, Any]:
    if isinstance(x, Mapping):
        return {str(name): leaf for name, leaf in x.items()}
    rank = x.shape.rank if isinstance(x, tf.TensorSpec) else None
    return {"image" if rank in (3, 4) and x.dtype == tf.uint8 else "x": x}


def _free(name: str, taken: Mapping[str, Any]) -> str:
    while name in taken:
        name += "_"
    return name


def _feature(leaf: Any, place: str) -> dict[str, Any]:
    shape = leaf.shape[1:] if isinstance(leaf, (tf.Tensor, tf.TensorSpec)) else None
    if shape is None or not tf.TensorShape(shape).is_fully_defined():
        found = "has no fixed shape" if shape is None else f"has the shape {shape}"
        raise DataError(
            f"{place} {found}: examples of different sizes cannot be converted.",
            hint="Pad or crop them to one shape first.",
        )
    size = [int(extent) for extent in shape]
    name = tf.as_dtype(leaf.dtype).name
    if name in ("float32", "int64", "string"):
        return {"type": name, "shape": size}
    if name in _BYTES and 0 not in size:
        return {"type": "bytes", "shape": size, "dtype": name}
    raise DataError(
        f"{place} is {name} of shape {size}, which cannot be converted.",
        hint=f"Make it one of float32, int64, string, {', '.join(_BYTES)}.",
    )


def _encode(feature: Mapping[str, Any], values: np.ndarray) -> list[tf.train.Feature]:
    rows = values.reshape(len(values), -1)
    kind = feature["type"]
    if kind == "bytes":
        little = rows.astype(rows.dtype.newbyteorder("<"), copy=False)
        return [_bytes([row.tobytes()]) for row in little]
    if kind == "string":
        return [_bytes([_as_bytes(value) for value in row]) for row in rows]
    if kind == "int64":
        return [tf.train.Feature(int64_list=tf.train.Int64List(value=row)) for row in rows.tolist()]
    return [tf.train.Feature(float_list=tf.train.FloatList(value=row)) for row in rows]


def _bytes(values: list[bytes]) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def _as_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
