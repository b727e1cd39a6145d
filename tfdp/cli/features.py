"""``tfdp features``"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tfdp.cli.common import prepare_runtime
from tfdp.cli.help_text import paragraph, runtime_help


def add_parser(commands: Any) -> None:
    """Adds the command to the subparsers of ``tfdp``."""
    parser = commands.add_parser(
        "features",
        help="the table of Keras features, stock TensorFlow beside tfdp",
        description=paragraph(
            "Run every Keras feature on stock TensorFlow and on tfdp, compare each with "
            "one device, and print the table that the README shows."
        ),
        epilog=runtime_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="write the table to FILE, not to the terminal"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints or writes the table; returns the exit code.

    Raises:
      TfdpError: it cannot be made or written.
    """
    prepare_runtime()

    from tfdp.parity.features import run as run_features

    return run_features(output=options.output)
