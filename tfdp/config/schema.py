"""The whole config: its sections, and what must hold between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tfdp.config.checks import a_path
from tfdp.config.data import DataConfig
from tfdp.config.model import ModelConfig, OptimizerConfig
from tfdp.config.output import OutputConfig
from tfdp.config.section import Rule, Section, setting, to_plain
from tfdp.config.strategy import StrategyConfig, device_count
from tfdp.config.training import TrainingConfig
from tfdp.config.yaml_text import dump

VERSION: Final = 1
"""The version of the config format that this tfdp reads and writes."""


def _known_version(version: int) -> str | None:
    if version == VERSION:
        return None
    if version > VERSION:
        return (
            f"is {version}, but this tfdp reads version {VERSION}; "
            "the config was written for a newer tfdp: update tfdp"
        )
    return f"is {version}, but the only version there is so far is {VERSION}"


def _a_row_for_each_replica(strategy: StrategyConfig, data: DataConfig) -> str | None:
    replicas = device_count(strategy.devices)
    if replicas is None or data.global_batch >= replicas:
        return None
    return (
        f"must be at least the number of replicas, got {data.global_batch} for "
        f"{replicas} devices (strategy.devices); use a larger batch or fewer devices"
    )


def _something_to_go_back_to(training: TrainingConfig, output: OutputConfig) -> str | None:
    checkpoints = output.checkpoints
    if training.on_not_finite.action == "stop" or (
        checkpoints.every_epochs or checkpoints.every_steps or checkpoints.every_minutes
    ):
        return None
    return (
        f"is {training.on_not_finite.action}, which needs checkpoints to go back to, and "
        "output.checkpoints asks for none"
    )


@dataclass(frozen=True, kw_only=True)
class Config(Section):
    """Everything that ``tfdp train`` needs to know.

    Raises:
      ConfigError: at construction, with every problem there is.
    """

    version: int = setting(f"Format of the config: {VERSION}.", _known_version)
    strategy: StrategyConfig = setting("Devices.", default=StrategyConfig)
    data: DataConfig = setting("Examples.")
    model: ModelConfig = setting("The model.")
    optimizer: OptimizerConfig = setting("The optimizer.", default=OptimizerConfig)
    training: TrainingConfig = setting("Duration and precision.", default=TrainingConfig)
    output: OutputConfig = setting("What a run leaves behind.", default=OutputConfig)
    module_directory: str | None = setting(
        'Where "module:function" is looked for before the installed packages, relative to the '
        "config file; null: the config file's directory.",
        a_path,
        default=None,
    )

    rules = (
        Rule(("strategy", "data"), _a_row_for_each_replica, blame="data.global_batch"),
        Rule(
            ("training", "output"),
            _something_to_go_back_to,
            blame="training.on_not_finite.action",
        ),
    )

    def to_yaml(self) -> str:
        """The config with every default filled in, as YAML that `load_config` reads back."""
        return dump(to_plain(self))
