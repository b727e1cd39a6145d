"""Process settings that TensorFlow reads once, when it is imported."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Final

from tfdp.errors import StrategyError


@dataclass(frozen=True)
class RuntimeSetting:
    """An environment variable that `tune_runtime` may set.

    Attributes:
      name: the variable.
      value: what it is set to, in words where that depends on the machine.
      when: in which case it is set.
      why: what it is good for.
    """

    name: str
    value: str
    when: str
    why: str


_SHARED = "several workers on one host"

RUNTIME_SETTINGS: Final = (
    RuntimeSetting(
        "TF_ENABLE_ONEDNN_OPTS",
        "1",
        "always",
        "oneDNN kernels, several times faster on CPUs where they are off by default",
    ),
    RuntimeSetting(
        "TF_GPU_THREAD_MODE",
        "gpu_private",
        "always",
        "each GPU launches its kernels from threads of its own, not from those that feed data",
    ),
    RuntimeSetting(
        "TF_FORCE_GPU_ALLOW_GROWTH",
        "true",
        "always",
        "GPU memory is taken as it is needed, not all at the start",
    ),
    RuntimeSetting(
        "TF_NUM_INTRAOP_THREADS",
        "cores / workers",
        _SHARED,
        "the threads of one operation: a share of the cores for each worker on this host",
    ),
    RuntimeSetting(
        "TF_NUM_INTEROP_THREADS",
        "cores / workers, at least 2",
        _SHARED,
        "operations at a time: the same share, but never so few that one waiting for another "
        "worker holds up the rest",
    ),
    RuntimeSetting(
        "OMP_NUM_THREADS",
        "cores / workers",
        _SHARED,
        "threads of NumPy and other libraries: the same share",
    ),
    RuntimeSetting(
        "TF_CPP_MIN_LOG_LEVEL",
        "1",
        "command line only",
        "fewer of TensorFlow's start-up messages",
    ),
)
"""Everything that `tune_runtime` may set, for ``--help``."""


def why(name: str) -> str:
    """The reason for the setting of this name, one of `RUNTIME_SETTINGS`."""
    (setting,) = (setting for setting in RUNTIME_SETTINGS if setting.name == name)
    return setting.why


def tune_runtime(
    *,
    workers_on_host: int = 1,
    log_level: int | None = None,
    environ: MutableMapping[str, str] | None = None,
) -> dict[str, str]:
    """Sets the environment variables of `RUNTIME_SETTINGS` that the user has not set.

    Call it before TensorFlow is imported: TensorFlow reads them once.

    Args:
      workers_on_host: worker processes that share this machine's cores.
      log_level: for ``TF_CPP_MIN_LOG_LEVEL``; None leaves it alone.
      environ: what to set them in; None is this process's environment. With another mapping, for
        a process that is yet to start, TensorFlow may be loaded in this one.

    Returns:
      The variables that were set, and their values. `why` has the reason for each.

    Raises:
      StrategyError: TensorFlow is imported already, or `workers_on_host` is less than 1.
    """
    if workers_on_host < 1:
        raise StrategyError(f"workers_on_host must be at least 1, got {workers_on_host}")
    if environ is None:
        if "tensorflow" in sys.modules:
            raise StrategyError(
                "The runtime cannot be tuned any more: TensorFlow is already imported, and it "
                "reads these settings only once.",
                hint="Call tfdp.tune_runtime() at the top of the program, before the first import "
                "of tensorflow or keras; in a notebook restart the kernel first.",
            )
        environ = os.environ
    wanted = {
        "TF_ENABLE_ONEDNN_OPTS": "1",
        "TF_GPU_THREAD_MODE": "gpu_private",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }
    if workers_on_host > 1:
        threads = max(1, usable_cores() // workers_on_host)
        wanted["TF_NUM_INTRAOP_THREADS"] = str(threads)
        wanted["TF_NUM_INTEROP_THREADS"] = str(max(2, threads))
        wanted["OMP_NUM_THREADS"] = str(threads)
    if log_level is not None:
        wanted["TF_CPP_MIN_LOG_LEVEL"] = str(log_level)
    made = {name: value for name, value in wanted.items() if name not in environ}
    environ.update(made)
    return made


def usable_cores() -> int:
    """How many cores this process may run on, which a container may have limited."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
