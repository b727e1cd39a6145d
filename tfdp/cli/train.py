"""``tfdp train``"""

from __future__ import annotations

import argparse
from typing import Any

from tfdp.cli.common import add_config_arguments, add_resume_argument, prepare_runtime
from tfdp.cli.help_text import config_help, paragraph, runtime_help
from tfdp.config import load_config
from tfdp.config.yaml_text import dump_flow


def add_parser(commands: Any) -> None:
    """Adds the command to the subparsers of ``tfdp``."""
    parser = commands.add_parser(
        "train",
        help="train what a config describes",
        description=paragraph(
            "Train what CONFIG describes, and write a run directory. With TF_CONFIG set, "
            "the same command in every worker trains on all of them."
        ),
        epilog=f"{config_help()}\n\n{runtime_help()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_config_arguments(parser)
    parser.add_argument(
        "--run-dir",
        metavar="DIR",
        help="where to write results; short for --set output.directory=DIR",
    )
    add_resume_argument(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="print CONFIG with all defaults, and train nothing"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Trains; returns the exit code.

    Raises:
      TfdpError: whatever is wrong with the config, cluster, devices, data or run directory.
    """
    overrides = list(options.overrides)
    if options.run_dir is not None:
        overrides.append(f"output.directory={dump_flow(options.run_dir)}")
    config = load_config(options.config, overrides)
    if options.dry_run:
        print(config.to_yaml(), end="")
        return 0
    prepare_runtime()

    from tfdp.training import train

    train(config, resume="auto" if options.resume == "auto" else options.resume == "always")
    return 0
