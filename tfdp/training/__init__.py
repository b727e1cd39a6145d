"""Training from a config. Importing this package loads TensorFlow."""

from __future__ import annotations

from tfdp.training.run import TrainResult, train

__all__ = ["TrainResult", "train"]
