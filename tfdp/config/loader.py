"""Reads a config file; every problem is reported at once, with its place."""

from __future__ import annotations

import dataclasses
import importlib.machinery
import sys
from collections.abc import Sequence
from pathlib import Path

from tfdp.config.build import build_section
from tfdp.config.overrides import apply_overrides
from tfdp.config.schema import VERSION, Config
from tfdp.config.tree import Node, TreeError, read_tree
from tfdp.errors import ConfigError


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Reads and validates a config, without loading TensorFlow.

    Args:
      path: a YAML file.
      overrides: ``section.key=value`` each, applied in turn; values are YAML.

    Returns:
      The config, with `module_directory` made absolute.

    Raises:
      ConfigError: the file cannot be read, or with everything that is wrong in it: one line each,
        with file and line (or the override) and the dotted key.
    """
    path = Path(path)
    try:
        root = read_tree(_read_text(path), str(path), lines=True)
    except TreeError as error:
        raise ConfigError(error.problems) from None
    if root is None:
        raise ConfigError(f"{path}: the file is empty", hint=_START)
    if not isinstance(root.value, dict):
        raise ConfigError(f"{path}: must be a mapping of keys to values", hint=_START)
    problems = apply_overrides(root, overrides)
    _refuse_newer(root)
    config = build_section(Config, root, problems)
    if config is not None:
        config = _with_module_directory(config, path)
        problems += _missing_modules(config, root)
    if config is None or problems:
        raise ConfigError(problems)
    return config


_START = "Start from one of the examples in configs/, for example configs/quickstart.yaml."


def _read_text(path: Path) -> str:
    try:
        if path.is_dir():
            raise ConfigError(f"{path}: is a directory, not a config file")
        if not path.is_file():
            missing = not path.exists()
            raise ConfigError(
                f"{path}: {'there is no such' if missing else 'is not a regular'} file"
            )
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: is not UTF-8 text (byte {error.start} is 0x{error.object[error.start]:02x})"
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{path}: cannot be read: {reason}") from None


def _refuse_newer(root: Node) -> None:
    """A newer format may well have keys that are unknown here: say only what matters."""
    node = root.value.get("version")
    version = None if node is None else node.value
    if type(version) is int and version > VERSION:
        raise ConfigError(
            f"{node.place}: version: is {version}, but this tfdp reads version {VERSION}",
            hint="The config was written for a newer tfdp: update tfdp.",
        )


def _with_module_directory(config: Config, path: Path) -> Config:
    directory = (path.parent / (config.module_directory or ".")).resolve()
    return dataclasses.replace(config, module_directory=str(directory))


def _missing_modules(config: Config, root: Node) -> list[str]:
    """Functions whose module is nowhere to be found; nothing is imported for it."""
    problems = []
    for section, reference in (("data", config.data.function), ("model", config.model.function)):
        if reference is None:
            continue
        module = reference.partition(":")[0].partition(".")[0]
        directory = config.module_directory or "."
        if module not in sys.modules and not _is_found(module, directory):
            place = root.value[section].value["function"].place
            problems.append(
                f'{place}: {section}.function: there is no module "{module}" in {directory} '
                "(module_directory) or among the installed packages"
            )
    return problems


def _is_found(module: str, directory: str) -> bool:
    if module in sys.builtin_module_names:
        return True
    search = [directory, *sys.path]
    return importlib.machinery.PathFinder.find_spec(module, search) is not None
