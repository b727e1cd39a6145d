"""Pictures of measurements, by matplotlib, which is loaded when one is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfdp.errors import RunError


def new_figure(columns: int, *, width: float = 5.0, height: float = 4.0, rows: int = 1) -> Any:
    """A figure that needs no screen, and its axes, `(figure, [rows][columns])`.

    Raises:
      RunError: matplotlib is not installed.
    """
    check_can_plot()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def save(figure: Any, path: Path) -> None:
    """Writes the picture; the file name's end says which kind, PNG where it has none.

    Raises:
      RunError: it cannot be written.
    """
    try:
        figure.savefig(path, dpi=120, format=path.suffix.lstrip(".").lower() or "png")
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: the picture cannot be written: {error}.") from None


def check_can_plot() -> None:
    """Raises RunError where there is no matplotlib: before minutes of measuring."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise RunError(
            "a plot needs matplotlib, which is not installed.",
            hint='pip install "tfdp[benchmarks]" brings it; or leave --plot out.',
        ) from None
