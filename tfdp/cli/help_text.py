"""Help texts made from the definitions that they describe."""

from __future__ import annotations

import shutil
import textwrap

from tfdp.cluster.runtime import RUNTIME_SETTINGS
from tfdp.config.reference import describe_keys


def paragraph(text: str) -> str:
    """`text` wrapped to the terminal, for parsers whose formatter leaves it as it is."""
    return "\n".join(_wrap(text, indent=0))


def runtime_help() -> str:
    """The environment variables that commands set before TensorFlow is imported."""
    lines = ["environment variables set before TensorFlow is imported, unless you have set them:"]
    for setting in RUNTIME_SETTINGS:
        when = "" if setting.when == "always" else f" ({setting.when})"
        lines.append(f"  {setting.name}={setting.value}{when}")
        lines += _wrap(setting.why, indent=6)
    return "\n".join(lines)


def config_help() -> str:
    """Every key of a config, with its type, default and meaning."""
    lines = ["keys of CONFIG (also for --set):"]
    for key in describe_keys():
        lines.append(f"  {key.name}: {key.type} ({key.default})")
        lines += _wrap(key.doc, indent=6)
    return "\n".join(lines)


def _wrap(text: str, indent: int) -> list[str]:
    width = max(40, min(100, shutil.get_terminal_size().columns))
    margin = " " * indent
    return textwrap.wrap(text, width, initial_indent=margin, subsequent_indent=margin)
