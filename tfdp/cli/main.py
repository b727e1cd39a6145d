"""Entry point of the command ``tfdp``."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence

from tfdp import __version__
from tfdp.cli import bench, data, doctor, features, launch, train, verify
from tfdp.cli.common import spell_resume_out
from tfdp.cli.help_text import paragraph, runtime_help
from tfdp.errors import PreemptedError, TfdpError

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it: 128 + SIGINT."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code.

    Args:
      arguments: without the program's name; None takes ``sys.argv``.

    Raises:
      SystemExit: ``--help``, ``--version``, or arguments that cannot be parsed (code 2).
    """
    given = sys.argv[1:] if arguments is None else arguments
    options = build_parser().parse_args(spell_resume_out(given))
    _log_to_stderr()
    try:
        code = int(options.run(options))
        sys.stdout.flush()  # here, where a reader that has left is an exception to catch
        return code
    except TfdpError as error:
        if isinstance(error, PreemptedError):  # it is saved: nobody needs to tell it once more
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print(_describe(error), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe has left (tfdp ... | head): nothing to say, and no one to say it to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; each sets ``run``, which takes the parsed arguments."""
    parser = argparse.ArgumentParser(
        prog="tfdp",
        description=paragraph(
            "Data-parallel training for TensorFlow and Keras 3: N replicas train exactly "
            "what one device would train on the whole batch."
        ),
        epilog=runtime_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tfdp {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (train, launch, verify, features, data, bench, doctor):
        command.add_parser(commands)
    return parser


def _describe(error: TfdpError) -> str:
    first, *rest = error.message.splitlines() or [""]
    lines = [f"error: {first}", *(f"       {line}" for line in rest)]
    if error.hint is not None:
        lines.append(f"hint: {error.hint}")
    return "\n".join(lines)


def _log_to_stderr() -> None:
    """Shows tfdp's own log, so that standard output has results alone."""
    logger = logging.getLogger("tfdp")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("tfdp: %(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
    logger.setLevel(logging.INFO)
