"""Typed, validated configuration. Nothing here loads TensorFlow."""

from __future__ import annotations

from tfdp.config.data import DataConfig
from tfdp.config.loader import load_config
from tfdp.config.model import ModelConfig, OptimizerConfig
from tfdp.config.output import CheckpointsConfig, OutputConfig
from tfdp.config.schema import Config
from tfdp.config.strategy import StrategyConfig
from tfdp.config.training import NotFiniteConfig, TrainingConfig

__all__ = [
    "Config",
    "load_config",
    "StrategyConfig",
    "DataConfig",
    "ModelConfig",
    "OptimizerConfig",
    "TrainingConfig",
    "NotFiniteConfig",
    "OutputConfig",
    "CheckpointsConfig",
]
