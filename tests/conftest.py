"""What holds for every test."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# TensorFlow, Keras and pytest themselves set these.
_FOREIGN = {
    "ENABLE_RUNTIME_UPTIME_TELEMETRY",
    "HDF5_PLUGIN_PATH",
    "PYTEST_CURRENT_TEST",
    "TF2_BEHAVIOR",
    "TPU_ML_PLATFORM",
    "TPU_ML_PLATFORM_VERSION",
}


@pytest.fixture(autouse=True)
def _environment_is_left_as_it_was() -> Iterator[None]:
    """A test that leaks an environment variable would change what later tests mean."""
    before = dict(os.environ)
    yield
    after = dict(os.environ)
    changed = sorted(
        name
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name) and name not in _FOREIGN
    )
    for name in changed:
        if name in before:
            os.environ[name] = before[name]
        else:
            del os.environ[name]
    assert not changed, f"the test leaks environment variables: {', '.join(changed)}"


@pytest.fixture(autouse=True)
def _loggers_are_left_as_they_were() -> Iterator[None]:
    """`tfdp.cli.main` sets up the logger of a process that it has to itself; nobody else may."""
    logger = logging.getLogger("tfdp")
    before = (logger.handlers[:], logger.level, logger.propagate)
    levels = _levels_below("tfdp")
    yield
    logger.handlers[:], logger.level, logger.propagate = before[0], before[1], before[2]
    after = _levels_below("tfdp")
    changed = sorted(name for name, level in after.items() if level != levels.get(name, 0))
    for name in changed:
        logging.getLogger(name).setLevel(levels.get(name, logging.NOTSET))
    assert not changed, f"the test leaks the levels of loggers: {', '.join(changed)}"


def _levels_below(name: str) -> dict[str, int]:
    loggers = logging.Logger.manager.loggerDict.items()
    return {
        child: logger.level
        for child, logger in loggers
        if child.startswith(f"{name}.") and isinstance(logger, logging.Logger)
    }


@pytest.fixture(scope="session", autouse=True)
def _eight_logical_devices() -> None:
    """One process serves every replica count: TensorFlow fixes its devices when it starts."""
    if "tensorflow" in sys.modules:
        import tensorflow as tf

        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 8
        )


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the source tree."""
    return Path(__file__).resolve().parent.parent
