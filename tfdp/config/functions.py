"""Finds and calls the functions that a config names as ``module:function``.

This module does not load TensorFlow; the user's module may.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import sysconfig
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from tfdp.config.suggest import nearest
from tfdp.errors import ConfigError, TfdpError

_PACKAGE = Path(__file__).parents[1]
_STANDARD_LIBRARY = sysconfig.get_paths()["stdlib"]


def load_function(reference: str, *, key: str, directory: Path) -> Callable[..., Any]:
    """Imports the function that `reference` names.

    The config's own directory is searched first, and stays on ``sys.path`` so that the module may
    import its neighbours later.

    Args:
      reference: ``module:function``, for example ``my_project.data:build``.
      key: the dotted key that holds it, for messages.
      directory: the directory of the config file.

    Raises:
      ConfigError: the reference is malformed, the module is missing or cannot be imported, or it
        has no such function.
    """
    module_name, colon, attribute = reference.partition(":")
    if not (colon and module_name and attribute):
        raise ConfigError(f"{key}: {reference!r} is not of the form module:function.")
    module = _import(module_name, key, directory.resolve())
    function: Any = module
    for name in attribute.split("."):
        if not hasattr(function, name):
            raise ConfigError(
                f"{key}: module {module_name!r} ({_origin(module)}) has no {attribute!r}."
                + _nearest(name, function)
            )
        function = getattr(function, name)
    if not callable(function):
        raise ConfigError(
            f"{key}: {reference} is a {type(function).__name__}, not a function that can be called."
        )
    return function


def call_function(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    *,
    key: str,
    reference: str,
    error: Callable[[str], TfdpError] = ConfigError,
) -> Any:
    """Calls a user's function, and turns what it raises into an error with its place.

    Args:
      function: what `load_function` returned.
      arguments: its keyword arguments.
      key: the dotted key that names it, for messages.
      reference: ``module:function``, for messages.
      error: makes the error to raise where the function itself fails.

    Raises:
      ConfigError: the function does not take these arguments.
      TfdpError: whatever `error` makes, with the exception, file and line; the original exception
        is its cause. A TfdpError from inside the function passes unchanged.
    """
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as problem:
        raise ConfigError(
            f"{key}: {reference}{inspect.signature(function)} cannot be called with "
            f"{dict(arguments)}: {problem}."
        ) from None
    except ValueError:  # some built-in callables have no signature: the call itself will tell
        pass
    try:
        return function(**arguments)
    except TfdpError:
        raise
    except Exception as problem:
        raise error(f"{key}: {reference} raised {_describe(problem)}") from problem


def _import(name: str, key: str, directory: Path) -> ModuleType:
    _refuse_namesake(name, key, directory)
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        missing = problem.name or ""
        if missing == name or name.startswith(f"{missing}."):
            raise ConfigError(
                f"{key}: there is no module {name!r}.",
                hint=f"Looked in {directory} (where the config is) and on Python's path. "
                "Is its file next to the config, or its package installed?",
            ) from problem
        raise ConfigError(
            f"{key}: module {name!r} needs the module {missing!r}, which is not installed."
        ) from problem
    except Exception as problem:
        raise ConfigError(
            f"{key}: importing module {name!r} raised {_describe(problem)}"
        ) from problem


def _refuse_namesake(name: str, key: str, directory: Path) -> None:
    """Python would silently return a loaded module of the same name from somewhere else."""
    loaded = sys.modules.get(name)
    base = directory.joinpath(*name.split("."))
    for candidate in (base / "__init__.py", base.with_suffix(".py")):
        if loaded is not None and candidate.is_file():
            origin = _origin(loaded)
            if origin != str(candidate.resolve()):
                raise ConfigError(
                    f"{key}: {candidate} cannot be imported as {name!r}: a module of that name is "
                    f"already loaded from {origin}.",
                    hint="Rename the file.",
                )
            return


def _origin(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    return str(Path(file).resolve()) if file else "built in"


def _nearest(attribute: str, owner: Any) -> str:
    names = [name for name in dir(owner) if callable(getattr(owner, name, None))]
    close = nearest(attribute, names)
    return f" Did you mean {close!r}?" if close else ""


def _describe(problem: BaseException) -> str:
    """``ValueError: text (file.py:12)``, the place being the last line of the user's own code."""
    if isinstance(problem, SyntaxError):
        return f"SyntaxError: {problem.msg} ({problem.filename}:{problem.lineno})"
    text = " ".join(str(problem).split())
    frames = traceback.extract_tb(problem.__traceback__)
    # The user's own line says more than a line deep inside a library that they called.
    own = [frame for frame in frames if not _is_library(frame.filename)]
    place = f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
    return f"{type(problem).__name__}: {text}{place}"


def _is_library(filename: str) -> bool:
    return (
        "site-packages" in filename
        or filename.startswith((_STANDARD_LIBRARY, "<"))
        or Path(filename).is_relative_to(_PACKAGE)
    )
