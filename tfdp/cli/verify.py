"""``tfdp verify``"""

from __future__ import annotations

import argparse
from typing import Any

from tfdp.cli.common import add_config_arguments, prepare_runtime
from tfdp.cli.help_text import paragraph, runtime_help
from tfdp.config import load_config


def add_parser(commands: Any) -> None:
    """Adds the command to the subparsers of ``tfdp``."""
    parser = commands.add_parser(
        "verify",
        help="compare N replicas with one device on your own model",
        description=paragraph(
            "Train the model of CONFIG on one device in plain Keras and on N replicas, "
            "compare everything, and exit with 1 if anything differs."
        ),
        epilog=runtime_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_config_arguments(parser)
    parser.add_argument(
        "--replicas",
        metavar="N,N,...",
        type=_replica_counts,
        default=(1, 2, 4),
        help="numbers of replicas to compare with one device (default 1,2,4)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compares; returns the exit code, 1 on a difference.

    Raises:
      TfdpError: whatever is wrong with the config, devices or data.
    """
    config = load_config(options.config, options.overrides)
    prepare_runtime()

    from tfdp.parity.command import run as run_verify

    return run_verify(config, options.replicas)


def _replica_counts(text: str) -> tuple[int, ...]:
    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1 or len(set(counts)) < len(counts):
        raise argparse.ArgumentTypeError(
            f'must be different numbers of at least 1, as in 1,2,4, got "{text}"'
        )
    return counts
