"""What a data tool works on: section ``data`` of a config, or a source by name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from tfdp.config import Config, DataConfig, load_config
from tfdp.config.names import DATA_SETS
from tfdp.config.overrides import apply_overrides
from tfdp.config.section import to_plain
from tfdp.config.suggest import unknown
from tfdp.config.tree import Node
from tfdp.data.builder import load_data
from tfdp.data.examples import Examples, TrainingData
from tfdp.errors import ConfigError, DataError

PARTS = ("train", "validation")


@dataclass(frozen=True)
class Subject:
    """Data that can be loaded.

    Attributes:
      data: section ``data``.
      directory: where the user's module is looked for first, and relative paths begin.
      seed: of Keras and TensorFlow, as a training run sets it before it loads the data.
      steps: ``training.steps_per_epoch``.
    """

    data: DataConfig
    directory: Path
    seed: int = 0
    steps: int | None = None

    def load(self, worker: int | None = None) -> TrainingData:
        """The examples as one worker of a run gets them, or a run without workers.

        Raises:
          ConfigError, DataError: see `tfdp.data.builder.load_data`.
        """
        keras.utils.set_random_seed(self.seed)
        return load_data(self.data, self.directory, worker=worker)

    def part(self, name: str, worker: int | None = None) -> Examples:
        """The training or the validation examples.

        Raises:
          DataError: there are no validation examples, or as `load`.
        """
        data = self.load(worker)
        if name == "train":
            return data.train
        if data.validation is None:
            raise DataError("there are no validation examples.")
        return data.validation

    def to_json(self) -> str:
        """For another process; `from_json` reads it back."""
        plain = _plain(to_plain(self.data))
        rest = {"directory": str(self.directory), "seed": self.seed, "steps": self.steps}
        return json.dumps({"data": plain, **rest})

    @classmethod
    def from_json(cls, text: str) -> Subject:
        """What `to_json` has written."""
        values = json.loads(text)
        data = DataConfig(**values.pop("data"))
        return cls(data=data, directory=Path(values.pop("directory")), **values)


def subject_of(config: Config) -> Subject:
    """The data of a whole config."""
    return Subject(
        data=config.data,
        directory=Path(config.module_directory or "."),
        seed=config.training.seed,
        steps=config.training.steps_per_epoch,
    )


def find_subject(source: str, overrides: Sequence[str]) -> Subject:
    """The data of a config file, or of a source by its name.

    Args:
      source: path of a config, or a name as in ``data.name``.
      overrides: ``KEY=VALUE`` each: keys of the config, or arguments of the source.

    Raises:
      ConfigError: neither a file nor a name, or what is in it cannot be used.
    """
    if source in DATA_SETS:
        arguments = _arguments(overrides)
        return Subject(DataConfig(name=source, arguments=arguments), Path.cwd())
    if not Path(source).exists() and Path(source).suffix not in (".yaml", ".yml"):
        raise ConfigError(
            f"{source}: is neither a config file nor a source: "
            f"{unknown(source, DATA_SETS, what='data set')}"
        )
    return subject_of(load_config(source, overrides))


def origin_of(subject: Subject, part: str) -> dict[str, Any]:
    """Where examples come from, in words that are the same wherever it is asked."""
    data = to_plain(subject.data)
    kept = ("name", "function", "arguments", "validation_fraction", "on_error")
    origin = {key: data[key] for key in kept if data[key]}
    if subject.data.validation_fraction or subject.data.function:
        origin["seed"] = subject.data.seed
    return {**_plain(origin), "part": part}


def _arguments(overrides: Sequence[str]) -> dict[str, Any]:
    root = Node({}, "--set")
    problems = apply_overrides(root, overrides)
    if problems:
        raise ConfigError(problems)
    values: dict[str, Any] = root.plain()
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
