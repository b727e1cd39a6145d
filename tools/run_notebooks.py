"""Executes every notebook of a folder from a clean kernel; the executed copies go elsewhere.

`python tools/run_notebooks.py notebooks --folder FOLDER`
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

CELL_TIMEOUT_SECONDS = 600


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", type=Path)
    parser.add_argument("--folder", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    found = sorted(arguments.notebooks.glob("*.ipynb"))
    if not found:
        print(f"no notebook in {arguments.notebooks}", file=sys.stderr)
        return 1
    for path in found:
        notebook = nbformat.read(path, as_version=4)
        started = time.monotonic()
        NotebookClient(
            notebook,
            timeout=CELL_TIMEOUT_SECONDS,
            kernel_name="python3",
            resources={"metadata": {"path": str(arguments.notebooks.resolve().parent)}},
        ).execute()
        nbformat.write(notebook, arguments.folder / path.name)
        print(f"{path}: {time.monotonic() - started:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
