"""The sources that a config can name, each with its typed options."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tfdp.config.names import DATA_SETS
from tfdp.config.section import Section, fields
from tfdp.config.suggest import unknown
from tfdp.data.examples import TrainingData
from tfdp.errors import ConfigError

_MODULES: Final[Mapping[str, str]] = {
    "fashion_mnist": "tfdp.data.sources.fashion_mnist",
    "npz": "tfdp.data.sources.npz",
    "csv": "tfdp.data.sources.csv_files",
    "parquet": "tfdp.data.sources.parquet",
    "tfrecord": "tfdp.data.sources.tfrecord",
    "image_folder": "tfdp.data.sources.image_folder",
    "tfds": "tfdp.data.sources.tfds",
}
"""Each module has a `FORMAT`; it is imported when it is asked for."""


@dataclass(frozen=True)
class Context:
    """What a source may want to know of the run.

    Attributes:
      directory: relative paths begin here.
      worker: this worker's index, or None where there are no workers.
      on_error: "fail" or "skip", what to do about an example that cannot be read.
    """

    directory: Path = Path()
    worker: int | None = None
    on_error: str = "fail"


@dataclass(frozen=True)
class Format:
    """A kind of source.

    Attributes:
      name: in ``data.name``.
      options: the section that ``data.arguments`` has to fit.
      load: makes the examples.
    """

    name: str
    options: type[Section]
    load: Callable[[Any, Context], TrainingData]


def find_format(name: str) -> Format:
    """The source called `name`.

    Raises:
      ConfigError: there is none; lists those there are.
    """
    if name not in _MODULES:
        raise ConfigError(f"data.name: {unknown(name, DATA_SETS, what='data set')}")
    found: Format = importlib.import_module(_MODULES[name]).FORMAT
    return found


def load_source(name: str, arguments: Mapping[str, Any], context: Context) -> TrainingData:
    """The examples of a named source.

    Args:
      name: see `tfdp.config.names.DATA_SETS`.
      arguments: of the source, as in ``data.arguments``.
      context: see `Context`.

    Raises:
      ConfigError: no such source, or arguments that it does not take.
      DataError: the examples are missing, damaged or of the wrong form.
    """
    found = find_format(name)
    return found.load(read_options(found, arguments), context)


def read_options(found: Format, arguments: Mapping[str, Any]) -> Any:
    """The options of a source, checked.

    Raises:
      ConfigError: with every problem there is.
    """
    known = {field.name: field for field in fields(found.options)}
    problems = [
        f"data.arguments: {unknown(key, known, what=f'argument of {found.name}')}"
        for key in arguments
        if key not in known
    ]
    problems += [
        f"data.arguments.{name}: is missing ({field.metadata['doc']})"
        for name, field in known.items()
        if name not in arguments and _is_required(field)
    ]
    if problems:
        raise ConfigError(problems)
    try:
        return found.options(**arguments)
    except ConfigError as error:
        prefix = f"{found.options.__name__}."
        raise ConfigError(
            [f"data.arguments.{problem.removeprefix(prefix)}" for problem in error.problems]
        ) from None


def _is_required(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing
