"""Runs the commands of a README: each ```bash block, in order, in a copy of the project.

A block is left out if the line before it is a comment `<!-- not run: REASON -->`; the reason is
printed. Used by CI: `python tools/run_readme.py README.md --folder FOLDER`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

DEADLINE_SECONDS = 900
_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^\n]*?) -->\n)?```bash\n(?P<commands>.*?)```", re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """One block of commands, and why it is not run, if so."""

    commands: str
    reason: str | None


def blocks(text: str) -> list[Block]:
    """The ```bash blocks of a Markdown text."""
    return [Block(match["commands"], match["reason"]) for match in _BLOCK.finditer(text)]


def copy_project(source: Path, target: Path) -> None:
    """Copies what git tracks, so that the commands leave no traces in the checkout."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=source, check=True, capture_output=True
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (source / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("readme", type=Path)
    parser.add_argument("--folder", type=Path, required=True, help="must not exist")
    arguments = parser.parse_args()
    copy_project(arguments.readme.resolve().parent, arguments.folder)
    for block in blocks(arguments.readme.read_text(encoding="utf-8")):
        if block.reason:
            print(f"--- not run ({block.reason}):\n{block.commands}", flush=True)
            continue
        print(f"--- running:\n{block.commands}", flush=True)
        started = time.monotonic()
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.commands],
            cwd=arguments.folder,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        print(f"--- {time.monotonic() - started:.0f} s, exit code {done.returncode}", flush=True)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
