"""Hands functions and data to child processes: by name and as plain arrays, without pickle."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tfdp.config.functions import load_function
from tfdp.errors import DataError, UnsupportedError
from tfdp.parity.children import CHILD_VARIABLE

SCRIPT_MODULE = "__tfdp_script__"
"""Under this name a child imports the script that the parent runs."""

_HOW = (
    "Put it into a module of its own (in a notebook: a cell that starts with "
    '"%%writefile my_model.py", then "from my_model import {name}"), or pass in_process=True to '
    "compare in this process, which needs a device for each replica here."
)


def function_reference(function: Callable[..., Any] | str, name: str) -> dict[str, str]:
    """Where a child finds the function.

    Args:
      function: one that can be imported, or "module:function".
      name: of the argument, for messages.

    Raises:
      UnsupportedError: a lambda, a function inside another, one of a notebook or the prompt, or
        something that is not a function at all.
    """
    if isinstance(function, str):
        return {"reference": function}
    qualified = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None)
    if not callable(function) or qualified is None or module is None:
        raise _cannot(name, function, f"a {type(function).__name__} has no name to import it by")
    if "<lambda>" in qualified:
        raise _cannot(name, function, "a lambda has no name to import it by")
    if "<locals>" in qualified:
        raise _cannot(name, function, "it is defined inside another function")
    if module != "__main__":
        return {"module": module, "qualified_name": qualified}
    script = getattr(sys.modules["__main__"], "__file__", None)
    if script is None or not Path(script).is_file():
        raise _cannot(name, function, "it is defined in a notebook or at the prompt")
    return {"script": str(Path(script).resolve()), "qualified_name": qualified}


def find_function(reference: Mapping[str, str], name: str) -> Callable[..., Any]:
    """The function that `function_reference` described, in a child.

    Raises:
      ConfigError: "module:function" names none.
      UnsupportedError: it is not there any more.
    """
    if "reference" in reference:
        return load_function(reference["reference"], key=name, directory=Path.cwd())
    found: Any
    if "script" in reference:
        found = _import_script(reference["script"])
    else:
        found = importlib.import_module(reference["module"])
    for part in reference["qualified_name"].split("."):
        if not hasattr(found, part):
            raise UnsupportedError(
                f"{name}: {found.__name__} has no {part!r} when it is imported by itself.",
                hint='Define it at the top of the file, outside of "if __name__ ...".',
            )
        found = getattr(found, part)
    result: Callable[..., Any] = found
    return result


def refuse_in_child(what: str) -> None:
    """Raises UnsupportedError in a child: a script that starts children when it is imported."""
    if os.environ.get(CHILD_VARIABLE):
        raise UnsupportedError(
            f"{what} is called while the script is imported by a process that it started itself.",
            hint="Put the call under \"if __name__ == '__main__':\".",
        )


def encode(value: Any, leaves: list[np.ndarray]) -> Any:
    """A nested structure as JSON, its arrays appended to `leaves`.

    Raises:
      DataError: a leaf is not an array of numbers, booleans or text.
    """
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {"dict": {str(key): encode(part, leaves) for key, part in value.items()}}
    if isinstance(value, (tuple, list)):
        return {type(value).__name__: [encode(part, leaves) for part in value]}
    array = np.asarray(value)
    if array.dtype.kind not in "biufSU":
        raise DataError(
            f"data: a {type(value).__name__} of dtype {array.dtype} cannot be handed to another "
            "process.",
            hint="Pass a function that makes the data instead.",
        )
    leaves.append(array)
    return len(leaves) - 1


def decode(structure: Any, leaves: Mapping[str, np.ndarray]) -> Any:
    """What `encode` was given; `leaves` by number."""
    if structure is None:
        return None
    if isinstance(structure, int):
        return leaves[str(structure)]
    ((kind, parts),) = structure.items()
    if kind == "dict":
        return {key: decode(part, leaves) for key, part in parts.items()}
    return {"tuple": tuple, "list": list}[kind](decode(part, leaves) for part in parts)


def _cannot(name: str, function: Any, why: str) -> UnsupportedError:
    shown = getattr(function, "__name__", "build")
    return UnsupportedError(
        f"{name} cannot be handed to another process: {why}.",
        hint=_HOW.format(name=shown if shown.isidentifier() else "build"),
    )


def _import_script(path: str) -> Any:
    if SCRIPT_MODULE in sys.modules:
        return sys.modules[SCRIPT_MODULE]
    spec = importlib.util.spec_from_file_location(SCRIPT_MODULE, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[SCRIPT_MODULE] = module
    spec.loader.exec_module(module)
    return module
