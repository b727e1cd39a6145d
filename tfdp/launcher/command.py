"""What ``tfdp launch`` does: from its options to a group, or to a scheduler's file."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from tfdp.cluster.address import host_of
from tfdp.cluster.environments.base import base_port
from tfdp.cluster.environments.hosts_file import (
    addresses_of,
    local_indexes,
    local_names,
    read_hosts_file,
)
from tfdp.config import Config, load_config
from tfdp.config.yaml_text import dump_flow
from tfdp.errors import (
    ClusterError,
    ConfigError,
    DataError,
    RunError,
    StrategyError,
    UnsupportedError,
)
from tfdp.launcher.data_service import DataService
from tfdp.launcher.emit import Job, kubernetes_manifest, slurm_script
from tfdp.launcher.environment import GroupShape
from tfdp.launcher.group import GroupResult
from tfdp.launcher.report import describe
from tfdp.launcher.supervisor import LaunchPlan, new_log_directory, supervise

_FINAL = (ConfigError, StrategyError, DataError, UnsupportedError)
RESUME = ("--resume", "auto")
"""What makes ``tfdp train`` go on with its run, if there is one by then."""

_SUBMIT = {"slurm": "sbatch", "kubernetes": "kubectl apply -f"}

_log = logging.getLogger("tfdp.launch")


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """The options of ``tfdp launch``; either `config` or `program` is given."""

    config: str | None
    program: tuple[str, ...]
    overrides: tuple[str, ...]
    run_directory: str | None
    resume: str
    workers: int | None
    devices_per_worker: int | None
    hosts: Path | None
    host: str | None
    start_timeout_seconds: float | None
    max_restarts: int
    min_workers: int | None
    stall_timeout_seconds: float | None
    grace_seconds: float
    log_directory: Path | None
    verbose: bool
    mpi: bool = False
    data_workers: int | None = None


def launch(options: LaunchOptions, stream: TextIO) -> int:
    """Runs the group; returns the worst exit code.

    Raises:
      ConfigError: the options contradict each other, or the config is wrong.
      ClusterError: the hosts file is wrong, or there are no ports.
      StrategyError: there are not enough GPUs, or no mpiexec.
      RunError: the program cannot be found, or the logs cannot be written.
    """
    config = _config(options)
    addresses, indexes = _hosts(options)
    workers = _workers(options, addresses)
    _check_min_workers(options, workers)
    _check_data_workers(options, config)
    logs = new_log_directory(options.log_directory)
    service = _data_service(options, logs)
    plan = LaunchPlan(
        shape=GroupShape(
            workers,
            options.devices_per_worker,
            options.start_timeout_seconds,
        ),
        command=_Commands(options, config, service),
        addresses=addresses,
        indexes=indexes,
        log_directory=logs,
        verbose=options.verbose,
        max_restarts=options.max_restarts,
        min_workers=options.min_workers,
        stall_timeout_seconds=options.stall_timeout_seconds,
        final_statuses=frozenset(e.exit_code for e in _FINAL) if config else frozenset(),
        grace_seconds=options.grace_seconds,
        mpi=_uses_mpi(options, config),
    )
    here = len(plan.indexes_here())
    whose = "worker, its" if here == 1 else "workers, their"
    _log.info("%d %s output is in %s", here, whose, plan.log_directory)
    with service or contextlib.nullcontext():
        return _report(supervise(plan, os.environ, stream), options)


def _data_service(options: LaunchOptions, logs: Path) -> DataService | None:
    if options.data_workers is None:
        return None
    return DataService(options.data_workers, os.environ, logs)


def _check_data_workers(options: LaunchOptions, config: Config | None) -> None:
    """Raises a `ConfigError` where ``--data-workers`` cannot be."""
    if options.data_workers is None:
        return
    if config is None:
        raise ConfigError(
            "--data-workers only goes with a CONFIG: a program says itself which data sets a "
            "service is to make",
            hint="tfdp data serve starts a tf.data service for it.",
        )
    if options.hosts is not None:
        raise ConfigError(
            "--data-workers starts a service for the workers of one machine; --hosts names several",
            hint="Run tfdp data serve --host NAME on one of them, and give all of them its "
            "address: --set data.service=grpc://NAME:PORT",
        )
    if config.data.service is not None:
        raise ConfigError(
            f"--data-workers starts a tf.data service, and data.service is {config.data.service}",
            hint="Use one of the two.",
        )


def emit(
    options: LaunchOptions, scheduler: str, output: Path | None, name: str, image: str | None
) -> int:
    """Writes the file for a scheduler, and says how to submit it; returns the exit code.

    Raises:
      ConfigError: the options contradict each other, or the config is wrong.
      RunError: the file cannot be written.
    """
    config = _config(options)
    if options.hosts is not None:
        raise ConfigError("--hosts and --emit exclude each other: the scheduler chooses the hosts")
    if options.data_workers is not None:
        raise ConfigError(
            "--data-workers and --emit exclude each other: a service that serves several machines "
            "is started by itself",
            hint="Run tfdp data serve --host NAME, and set data.service to its address.",
        )
    if options.mpi:
        raise ConfigError(
            "--mpi and --emit exclude each other: the scheduler starts MPI's ranks",
            hint="With Slurm: srun --mpi=pmi2, as your MPI asks for it.",
        )
    job = Job(
        name=name,
        command=_train_command(options, ["tfdp"]) if config else options.program,
        workers=_workers(options, None),
        gpus_per_worker=options.devices_per_worker,
        max_restarts=options.max_restarts,
        start_timeout_seconds=options.start_timeout_seconds,
        grace_seconds=options.grace_seconds,
        image=image,
        resume=() if config is None or options.resume != "never" else RESUME,
    )
    text = slurm_script(job) if scheduler == "slurm" else kubernetes_manifest(job)
    if output is None:
        print(text, end="")
        print(f"save this as FILE and submit it with: {_SUBMIT[scheduler]} FILE", file=sys.stderr)
        return 0
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunError(f"{output} cannot be written: {error.strerror}") from None
    print(f"submit it with: {_SUBMIT[scheduler]} {output}")
    return 0


class _Commands:
    """The command of each start: after a failure a run that exists by then is resumed."""

    def __init__(
        self, options: LaunchOptions, config: Config | None, service: DataService | None
    ) -> None:
        self._options = options
        self._config = config
        self._service = service

    def __call__(self, restarts: int) -> Sequence[str]:
        if self._config is None:
            return self._options.program
        command = _train_command(self._options, [sys.executable, "-m", "tfdp"])
        if self._service is not None:
            command = (*command, "--set", f"data.service={self._service.address()}")
        decided = self._options.resume != "never"
        return command if decided or not restarts else (*command, *RESUME)


def _train_command(options: LaunchOptions, program: list[str]) -> tuple[str, ...]:
    command = [*program, "train", str(options.config)]
    for override in options.overrides:
        command += ["--set", override]
    if options.devices_per_worker is not None:
        command += ["--set", f"strategy.devices={options.devices_per_worker}"]
    if options.run_directory is not None:
        command += ["--run-dir", options.run_directory]
    if options.resume != "never":
        command += ["--resume", options.resume]
    return tuple(command)


def _config(options: LaunchOptions) -> Config | None:
    """The config, checked here so that its problems are told once; None for a program.

    Raises:
      ConfigError: it is wrong, or does not go with several workers.
      RunError: the program cannot be found.
    """
    if options.config is None:
        unused = [
            name
            for name, value in (
                ("--set", options.overrides),
                ("--run-dir", options.run_directory),
                ("--resume", options.resume != "never"),
            )
            if value
        ]
        if unused:
            raise ConfigError(
                f"{', '.join(unused)} only goes with a CONFIG, which ends in .yaml or .yml; "
                f"{options.program[0]} is taken for a program",
                hint="Options of the program stand behind --, as in: -- python train.py --resume",
            )
        return None
    overrides = list(options.overrides)
    if options.run_directory is not None:
        overrides.append(f"output.directory={dump_flow(options.run_directory)}")
    config = load_config(options.config, overrides)
    if config.strategy.kind not in ("auto", "multi_worker"):
        raise ConfigError(
            f"strategy.kind is {config.strategy.kind}: every worker would train for itself alone",
            hint="Set it to multi_worker or auto: --set strategy.kind=multi_worker",
        )
    return config


def _hosts(options: LaunchOptions) -> tuple[tuple[str, ...] | None, tuple[int, ...] | None]:
    """Addresses of all workers and the indexes of those on this machine, from ``--hosts``."""
    if options.config is None and shutil.which(options.program[0]) is None:
        raise RunError(
            f"there is no program {options.program[0]}",
            hint="A config ends in .yaml or .yml; a program is found on PATH or by its path.",
        )
    if options.hosts is None:
        if options.host is not None:
            raise ConfigError("--host says which host of a hosts file this is; --hosts is missing")
        return None, None
    entries = read_hosts_file(options.hosts)
    addresses = addresses_of(entries, base_port(os.environ, "hosts file"))
    names = local_names() if options.host is None else {options.host, host_of(f"{options.host}:1")}
    indexes = tuple(local_indexes(addresses, names))
    if not indexes:
        raise ClusterError(
            f"{options.hosts} names no worker on this machine, which is called "
            f"{', '.join(sorted(names))}"
        )
    return addresses, indexes


def _workers(options: LaunchOptions, addresses: Sequence[str] | None) -> int:
    if addresses is None:
        if options.workers is None:
            raise ConfigError("--workers is missing: how many workers?")
        return options.workers
    if options.workers not in (None, len(addresses)):
        raise ConfigError(
            f"--workers is {options.workers}, but {options.hosts} names {len(addresses)} workers",
            hint="Leave --workers out.",
        )
    return len(addresses)


def _uses_mpi(options: LaunchOptions, config: Config | None) -> bool:
    """Whether the workers are to be ranks of MPI: ``--mpi``, or a config that reduces by it.

    Raises:
      ConfigError: the workers are on several machines, where mpiexec itself has to start them.
    """
    if not options.mpi and (config is None or not config.strategy.uses_mpi):
        return False
    if options.hosts is not None:
        raise ConfigError(
            "MPI's ranks are started on this machine only, and --hosts names several machines",
            hint="Start `tfdp train` on all of them by mpiexec or srun, without tfdp launch.",
        )
    return True


def _check_min_workers(options: LaunchOptions, workers: int) -> None:
    """Refuses a smaller group that there cannot be, and warns of two groups instead of one.

    Raises:
      ConfigError: `min_workers` is out of range, or there is no restart in which it could matter.
    """
    least = options.min_workers
    if least is None:
        return
    if least > workers:
        raise ConfigError(f"--min-workers is {least}, but there are only {workers} workers")
    if not options.max_restarts:
        raise ConfigError(
            "--min-workers says how small the group may be when it is started again, and without "
            "--max-restarts it is not",
            hint="Add --max-restarts: a worker that is lost costs one restart or two.",
        )
    if options.hosts is not None and 2 * least <= workers:
        _log.warning(
            "--min-workers %d of %d: when the network between the machines is cut, each part may "
            "go on for itself and write the same files; %d or more cannot",
            least, workers, workers // 2 + 1,
        )  # fmt: skip


def _report(result: GroupResult, options: LaunchOptions) -> int:
    if result.preempted:
        told = "a worker was" if result.interrupt is None else "the workers were"
        asks = options.config is not None and options.resume == "never"
        resume = " and --resume" if asks else ""
        print(
            f"{told} told to end: saved; go on with the same command{resume}",
            file=sys.stderr,
        )
        return result.status
    if result.interrupt is not None:
        name = signal.Signals(result.interrupt).name
        print(f"interrupted by {name}: all workers have ended", file=sys.stderr)
        return 128 + result.interrupt
    if result.failure is not None:
        print(f"error: {describe(result.failure)}", file=sys.stderr)
    return result.status
