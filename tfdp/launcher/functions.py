"""Hands a function to another process: by its name, its file, or its source text; never pickled.

=====================  =============================================================================
where it is defined    what the worker does
=====================  =============================================================================
a module               imports the module (also ``"module:function"`` as text)
the running script     loads the file as a module that is not ``__main__``: what stands under
                       ``if __name__ == "__main__"`` does not run again
a notebook cell, the   runs the function's own source text in an empty module: it must import what
prompt, a function     it uses inside its body, and take everything else as arguments
=====================  =============================================================================
"""

from __future__ import annotations

import builtins
import dis
import importlib
import importlib.util
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tfdp.errors import DataError

SCRIPT_MODULE = "__tfdp_script__"
"""The name under which a worker loads the script that its caller runs."""

_HOW = (
    'Put it into a module, and pass the function or "module:function"; or import what it uses '
    "inside of it, and pass everything else by args."
)


def describe_function(function: Callable[..., Any] | str) -> dict[str, str]:
    """What a worker needs in order to find the function; JSON-able.

    Args:
      function: a function, or ``"module:function"``.

    Raises:
      DataError: another process cannot get it: a lambda, a closure, a method of an object, or one
        that uses names from a notebook.
    """
    if isinstance(function, str):
        module, colon, name = function.partition(":")
        if not (module and colon and name):
            raise DataError(f'"{function}" is not of the form module:function')
        return {"kind": "module", "module": module, "name": name}
    if not isinstance(function, types.FunctionType):
        raise DataError(
            f"a worker runs a function, got {type(function).__name__}: {function!r}", hint=_HOW
        )
    name = function.__qualname__
    if "<lambda>" in name:
        raise DataError("a lambda has no name by which a worker could find it", hint=_HOW)
    if "<locals>" not in name:
        if function.__module__ != "__main__" and _is_found(function, function.__module__, name):
            return {"kind": "module", "module": function.__module__, "name": name}
        file = getattr(sys.modules["__main__"], "__file__", None)
        if (
            file is not None
            and Path(function.__code__.co_filename).resolve() == Path(file).resolve()
        ):
            return {"kind": "file", "file": str(Path(file).resolve()), "name": name}
    return {"kind": "source", "source": _source(function), "name": function.__name__}


def find_function(description: dict[str, str]) -> Callable[..., Any]:
    """The function of `describe_function`, in a worker.

    Raises:
      DataError: it is not there.
      Exception: whatever its module raises when it is imported.
    """
    kind, name = description["kind"], description["name"]
    if kind == "module":
        found: Any = importlib.import_module(description["module"])
    elif kind == "file":
        found = _load_file(description["file"])
    else:
        found = _run_source(description["source"], name)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        place = description.get("module") or description.get("file") or "its source text"
        raise DataError(f"there is no function {name} in {place}")
    function: Callable[..., Any] = found
    return function


def _is_found(function: Callable[..., Any], module: str, name: str) -> bool:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is function


def _is_same_file(first: str, second: str) -> bool:
    return Path(first).resolve() == Path(second).resolve()


def _source(function: types.FunctionType) -> str:
    """The function's own source text, if that alone can run.

    Raises:
      DataError: there is none, or it depends on what stands around it.
    """
    if function.__closure__:
        names = ", ".join(function.__code__.co_freevars)
        raise DataError(
            f"{function.__name__} uses {names} of the function around it, which a worker does not "
            "have",
            hint=_HOW,
        )
    outside = sorted(set(_global_names(function.__code__)) - {function.__name__})
    outside = [name for name in outside if not hasattr(builtins, name)]
    if outside:
        raise DataError(
            f"{function.__name__} uses names from outside of it, which a worker does not have: "
            f"{', '.join(outside)}",
            hint=_HOW,
        )
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise DataError(
            f"the source text of {function.__name__} cannot be found", hint=_HOW
        ) from None


def _global_names(code: types.CodeType) -> Iterator[str]:
    """Names that a function, and those inside it, look up outside of them."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME") and instruction.argval != "__name__":
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _load_file(file: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(SCRIPT_MODULE, file)
    if spec is None or spec.loader is None:
        raise DataError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[SCRIPT_MODULE] = module
    spec.loader.exec_module(module)
    return module


def _run_source(source: str, name: str) -> types.ModuleType:
    # The annotations in a notebook's function may name types that it does not import itself.
    text = f"from __future__ import annotations\n{source}"
    module = types.ModuleType(SCRIPT_MODULE)
    sys.modules[SCRIPT_MODULE] = module
    exec(compile(text, f"<source of {name}>", "exec"), module.__dict__)  # noqa: S102
    return module
