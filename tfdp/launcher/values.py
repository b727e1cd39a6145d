"""Arguments and results on their way between processes: JSON, and NumPy arrays beside it.

No pickle: what is read can hold data, but never run code.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tfdp.errors import DataError

_SCALARS = (str, int, float, bool, type(None))


def save_value(value: Any, path: Path, *, what: str) -> None:
    """Writes a value to ``path.json``, and its arrays to ``path.npz``.

    Args:
      value: None, bool, int, float, str, NumPy arrays and scalars, and lists, tuples and dicts
        (with keys of type str) of these.
      path: without a suffix. The JSON file appears last, and at once.
      what: names the value, for messages.

    Raises:
      DataError: it holds anything else, or itself.
    """
    arrays: dict[str, Any] = {}
    tree = _encode(value, arrays, what, depth=0)
    if arrays:
        import numpy as np

        with open(path.with_suffix(".npz"), "wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(tree), encoding="utf-8")
    os.replace(partial, path.with_suffix(".json"))


def load_value(path: Path) -> Any:
    """Reads what `save_value` wrote.

    Raises:
      FileNotFoundError: nothing was written there.
    """
    tree = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    arrays: dict[str, Any] = {}
    if path.with_suffix(".npz").exists():
        import numpy as np

        with np.load(path.with_suffix(".npz"), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    return _decode(tree, arrays)


def _encode(value: Any, arrays: dict[str, Any], what: str, depth: int) -> Any:
    """Containers and arrays become [tag, content], so that no value can be taken for another."""
    if type(value) in _SCALARS:
        return value
    if depth > 100:
        raise DataError(f"{what} is nested more than 100 deep, or holds itself")
    if isinstance(value, (list, tuple)):
        tag = "tuple" if isinstance(value, tuple) else "list"
        items = [_encode(v, arrays, f"{what}[{i}]", depth + 1) for i, v in enumerate(value)]
        return [tag, items]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise DataError(f"{what} has the key {key!r}; between processes keys must be str")
        return [
            "dict",
            {k: _encode(v, arrays, f"{what}[{k!r}]", depth + 1) for k, v in value.items()},
        ]
    return ["array", _encode_array(value, arrays, what)]


def _encode_array(value: Any, arrays: dict[str, Any], what: str) -> list[Any]:
    np = sys.modules.get("numpy")  # without NumPy loaded there are no arrays
    if np is None or not isinstance(value, (np.ndarray, np.generic)):
        raise DataError(
            f"{what} is a {type(value).__module__}.{type(value).__qualname__}, which cannot go to "
            "another process",
            hint="Between processes go None, bool, int, float, str, NumPy arrays, and lists, "
            "tuples and dicts of these: tensor.numpy(), history.history, model.get_weights(), or "
            "the path of a file.",
        )
    array = np.asarray(value)
    if array.dtype.hasobject or array.dtype.kind == "V":
        raise DataError(f"{what} is an array of {array.dtype}, which cannot go to another process")
    name = f"a{len(arrays)}"
    arrays[name] = array
    return [name, isinstance(value, np.generic)]


def _decode(tree: Any, arrays: dict[str, Any]) -> Any:
    if not isinstance(tree, list):
        return tree
    tag, content = tree
    if tag == "array":
        name, is_scalar = content
        return arrays[name][()] if is_scalar else arrays[name]
    if tag == "dict":
        return {key: _decode(item, arrays) for key, item in content.items()}
    items = [_decode(item, arrays) for item in content]
    return tuple(items) if tag == "tuple" else items
