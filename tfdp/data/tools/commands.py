"""The data tools for the command line: text on standard output, JSON on request."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rich.console import Console

from tfdp.config.yaml_text import dump
from tfdp.data.tools.audit import AuditOptions, audit
from tfdp.data.tools.audit_report import lines_of, table_of, to_json
from tfdp.data.tools.convert import ConvertOptions, convert
from tfdp.data.tools.peek import peek
from tfdp.data.tools.peek_report import save, show
from tfdp.data.tools.prepare import prepare
from tfdp.data.tools.progress import Counter
from tfdp.data.tools.subject import Subject

WIDTH = 100
"""Of what goes to a file or a pipe."""


def run_audit(subject: Subject, options: AuditOptions, *, as_json: bool) -> int:
    """Audits, prints, and returns the exit code: 1 where an example is lost or doubled.

    Raises:
      TfdpError: see `tfdp.data.tools.audit.audit`.
    """
    with Counter("auditing") as counter:
        found = audit(subject, options, counter.add)
    if as_json:
        print(to_json(found))
        return 0 if found.sound else 1
    console = output()
    console.print(table_of(found))
    for line in lines_of(found):
        say(console, line)
    return 0 if found.sound else 1


def run_convert(subject: Subject, folder: Path, options: ConvertOptions) -> int:
    """Converts, prints how a config reads the result, and returns the exit code 0.

    Raises:
      TfdpError: see `tfdp.data.tools.convert.convert`.
    """
    found = convert(subject, folder, options)
    console = output()
    kept = f" ({found.kept} had been finished before)" if found.kept else ""
    say(console, f"{found.rows:,} examples in {found.shards} shards{kept}: {found.manifest}")
    say(console, "in a config beside which the folder lies:")
    files = os.path.join(folder, found.arguments["files"])
    data = {"name": "tfrecord", "arguments": {**found.arguments, "files": files}}
    print(dump({"data": data}), end="")
    return 0


def run_peek(subject: Subject, part: str, examples: int, most: int, picture: Path | None) -> int:
    """Shows examples and statistics, and returns the exit code 0.

    Raises:
      TfdpError: see `tfdp.data.tools.peek.peek`, and `save`.
    """
    found = peek(subject, part, examples, most)
    console = output()
    show(found, console)
    if picture is not None:
        say(console, f"{save(found, picture)} pictures: {picture}")
    return 0


def run_prepare(name: str, files: Path | None, data_dir: Path) -> int:
    """Prepares a data set, prints how a config reads it, and returns the exit code 0.

    Raises:
      TfdpError: see `tfdp.data.tools.prepare.prepare`.
    """
    found = prepare(name, files, data_dir)
    console = output()
    rows = ", ".join(f"{split}: {count:,} examples" for split, count in found.rows.items())
    was = "was prepared already" if found.already else "prepared"
    say(console, f"{was}: {found.folder} ({rows})")
    say(console, "in a config:")
    arguments = {"dataset": found.name, "data_dir": str(found.data_dir.resolve())}
    if "test" in found.rows:
        arguments["validation"] = "test"
    print(dump({"data": {"name": "tfds", "arguments": arguments}}), end="")
    return 0


def output() -> Console:
    """Standard output."""
    return Console(width=None if sys.stdout.isatty() else WIDTH)


def say(console: Console, line: str) -> None:
    """Prints a line as it is."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)
