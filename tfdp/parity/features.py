"""``tfdp features``: Keras feature by feature, TensorFlow's own MirroredStrategy beside tfdp."""

from __future__ import annotations

import contextlib
import json
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfdp.errors import RunError
from tfdp.parity.children import ChildFailed, run_child
from tfdp.parity.compare import TOLERANCES, compare
from tfdp.parity.feature_child import REPLICAS, SECONDS_FOR_A_FEATURE
from tfdp.parity.feature_programs import FEATURES, Feature

CHILD_MODULE = "tfdp.parity.feature_child"
MESSAGE_LENGTH = 60

# Both strategies run on the same logical CPU devices, wherever the table is made.
_ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}


@dataclass(frozen=True)
class Ended:
    """A feature that raised, or took its process down.

    Attributes:
      message: in one line.
      refused: whether tfdp refused it on purpose.
    """

    message: str
    refused: bool = False


Outcome = Mapping[str, np.ndarray] | Ended


def run(output: Path | None, numbers: Sequence[int] | None = None) -> int:
    """Runs every feature on one device, on stock TensorFlow and on tfdp, and writes the table.

    Args:
      output: the Markdown file to write; None prints it.
      numbers: indices of the features to run; None means all of them.

    Returns:
      0, also where stock TensorFlow differs.

    Raises:
      RunError: `output` cannot be written, or a feature does not run on one device.
    """
    if output is not None:
        _check_writable(output)
    chosen = range(len(FEATURES)) if numbers is None else numbers
    outcomes = {kind: run_features(kind, chosen) for kind in ("one_device", "stock", "tfdp")}
    text = markdown([FEATURES[n] for n in chosen], *(list(o.values()) for o in outcomes.values()))
    if output is None:
        print(text, end="")
        return 0
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritable(output, error) from error
    return 0


def run_features(kind: str, numbers: Sequence[int]) -> dict[int, Outcome]:
    """What each feature came to, by number; in a new process after each that fails.

    Args:
      kind: "one_device", "stock" or "tfdp".
      numbers: indices of `FEATURES`.
    """
    found: dict[int, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="tfdp-features-") as name:
        folder = Path(name)
        while missing := [n for n in numbers if n not in found]:
            ended = "ended without a result"
            try:
                run_child(
                    CHILD_MODULE,
                    [kind, str(folder), *map(str, missing)],
                    folder,
                    what=kind,
                    timeout_seconds=SECONDS_FOR_A_FEATURE * len(missing),
                    environ=_ENVIRONMENT,
                )
            except ChildFailed as failure:
                ended = failure.message
            for n in missing:
                outcome = _read(folder, n)
                if outcome is not None:
                    found[n] = outcome
            if not any(n in found for n in missing):
                found[missing[0]] = Ended(ended)
    return {n: found[n] for n in numbers}


def markdown(
    features: Sequence[Feature],
    one: Sequence[Outcome],
    stock: Sequence[Outcome],
    tfdp: Sequence[Outcome],
) -> str:
    """The table; `one`, `stock` and `tfdp` are in the order of `features`."""
    lines = [
        f"| Keras feature, {REPLICAS} replicas against one device "
        "| stock `MirroredStrategy` | tfdp |",
        "|---|---|---|",
    ]
    group = None
    for feature, reference, *others in zip(features, one, stock, tfdp, strict=True):
        if isinstance(reference, Ended):
            raise RunError(f"{feature.name} does not run on one device: {reference.message}")
        if feature.group != group:
            group = feature.group
            lines.append(f"| **{group}** | | |")
        cells = [cell(feature, reference, outcome) for outcome in others]
        lines.append(f"| {feature.name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def cell(feature: Feature, reference: Mapping[str, np.ndarray], outcome: Outcome) -> str:
    """What happened, in a few words."""
    if isinstance(outcome, Ended):
        word = "refused" if outcome.refused else "**fails**"
        return f"{word}: {_short(outcome.message)}"
    infinite = [key for key, value in outcome.items() if not np.all(np.isfinite(value))]
    if infinite:
        return f"**NaN** in {infinite[0]}"
    tolerance = feature.tolerance or TOLERANCES["float64"]
    different = compare(dict(reference), dict(outcome), tolerance)
    if not different:
        return "equal"
    if feature.by_definition is not None:
        return f"differs by definition: {feature.by_definition}"
    worst = max(different, key=lambda difference: difference.size)
    return f"**wrong**: {worst.name} {worst.what}"


def _read(folder: Path, number: int) -> Outcome | None:
    error, arrays = folder / f"{number}.json", folder / f"{number}.npz"
    if error.exists():
        fields = json.loads(error.read_text(encoding="utf-8"))
        return Ended(fields["message"], fields["refused"])
    if arrays.exists():
        # A process that was killed while it wrote leaves half a file.
        with (
            contextlib.suppress(OSError, ValueError, zipfile.BadZipFile),
            np.load(arrays, allow_pickle=False) as found,
        ):
            return dict(found)
    return None


def _short(message: str) -> str:
    text = message.replace("|", "/").replace("*", "").replace("`", "")
    return text if len(text) <= MESSAGE_LENGTH else text[: MESSAGE_LENGTH - 1].rstrip() + "…"


def _check_writable(output: Path) -> None:
    """Minutes of work must not end at a path that cannot be written."""
    try:
        with output.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise _unwritable(output, error) from error


def _unwritable(output: Path, error: OSError) -> RunError:
    return RunError(
        f"{output}: the table cannot be written: {error.strerror}",
        hint="Name a file in a directory that exists and may be written.",
    )
