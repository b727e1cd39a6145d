"""``tfdp doctor``"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfdp.cli.help_text import paragraph
from tfdp.cluster.doctor import Finding, Patient, Status, examine, worst
from tfdp.config import Config, load_config
from tfdp.config.strategy import device_count
from tfdp.errors import ConfigError


def add_parser(commands: Any) -> None:
    """Adds the command to the subparsers of ``tfdp``."""
    parser = commands.add_parser(
        "doctor",
        help="check whether this machine is ready to train",
        description=paragraph(
            "Check versions, devices, NCCL, MPI, the cluster, names, ports, disk, memory and "
            "clock; with CONFIG also what it asks for. Exit with 1 if a check fails."
        ),
    )
    parser.add_argument("config", metavar="CONFIG", nargs="?", help="a YAML file")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the findings; returns the exit code, 1 where one is a failure."""
    findings = []
    for finding in _examine(options.config):
        findings.append(finding)
        if not options.json:
            _show(finding)
    status = worst(findings)
    if options.json:
        report = {"status": status, "findings": [dataclasses.asdict(each) for each in findings]}
        print(json.dumps(report, indent=2))
    else:
        counts = [f"{sum(f.status is s for f in findings)} {s}" for s in Status]
        print(", ".join(counts))
    return 1 if status is Status.FAIL else 0


def _examine(path: str | None) -> Iterator[Finding]:
    environ = dict(os.environ)
    if path is None:
        yield from examine(Patient(environ))
        return
    try:
        config = load_config(path, [])
    except ConfigError as error:
        remedy = error.hint or "Correct the config: tfdp train --help lists all keys."
        yield Finding("config", Status.FAIL, "; ".join(error.problems), remedy)
        yield from examine(Patient(environ))
        return
    yield Finding("config", Status.PASS, path)
    yield from examine(_patient(config, environ))


def _patient(config: Config, environ: dict[str, str]) -> Patient:
    devices = device_count(config.strategy.devices)
    return Patient(
        environ,
        output=Path(config.output.directory),
        devices=devices,
        needs_cluster=config.strategy.kind == "multi_worker",
    )


def _show(finding: Finding) -> None:
    print(f"{finding.status}  {finding.check:<14} {finding.message}", flush=True)
    if finding.remedy:
        print(f"{'':<21}-> {finding.remedy}", flush=True)
