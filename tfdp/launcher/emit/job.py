"""What a scheduler is asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tfdp.errors import ConfigError

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,48}[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class Job:
    """A group of workers for a scheduler.

    Attributes:
      name: of the job, a DNS label of at most 50 characters.
      command: program and arguments of each worker.
      workers: how many.
      gpus_per_worker: GPUs for each; None asks for none.
      max_restarts: how often a job that failed is started again.
      start_timeout_seconds: how long workers wait for each other; None: what suits the scheduler.
      grace_seconds: that a worker has to save and leave when it is told to end.
      image: the container image, for Kubernetes.
      resume: arguments that make the command go on with its run, if there is one.

    Raises:
      ConfigError: the name cannot be one.
    """

    name: str
    command: tuple[str, ...]
    workers: int
    gpus_per_worker: int | None = None
    max_restarts: int = 0
    start_timeout_seconds: float | None = None
    grace_seconds: float = 30.0
    image: str | None = None
    resume: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f'--name must be lower-case letters, digits and "-", start with a letter and have '
                f'at most 50 characters, got "{self.name}"'
            )
