"""Data and a model of one's own, as configs/user_function.yaml names them.

Nothing here knows about replicas: the functions are what one would write for one device.
"""

from __future__ import annotations

import keras
import numpy as np


def spirals(rows: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two spirals that wind around each other.

    Args:
      rows: points of both spirals together.
      noise: standard deviation of each coordinate; the spirals reach out to 1.
      seed: of the points.

    Returns:
      Points `(rows, 2)` float32, and `(rows, 1)` float32 labels: 0 or 1, by spiral.
    """
    random = np.random.default_rng(seed)
    label = random.integers(0, 2, rows)
    radius = np.sqrt(random.uniform(0.01, 1.0, rows))
    angle = 1.5 * np.pi * radius + np.pi * label
    points = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    points += random.normal(0.0, noise, points.shape)
    return points.astype("float32"), label[:, None].astype("float32")


def build(units: int) -> keras.Model:
    """A network from points `(rows, 2)` to the probability `(rows, 1)` of spiral 1."""
    return keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(units, activation="relu"),
            keras.layers.Dense(units, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
