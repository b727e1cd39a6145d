"""Which GPUs there are, and which worker gets which; found out without loading TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tfdp.errors import StrategyError

_DRIVER = Path("/proc/driver/nvidia/gpus")


def visible_gpus(environ: Mapping[str, str], driver: Path = _DRIVER) -> list[str]:
    """Names for ``CUDA_VISIBLE_DEVICES``: those in it, or the index of every GPU of the machine.

    Args:
      environ: the variable is looked for here.
      driver: where the NVIDIA driver lists the GPUs.
    """
    if "CUDA_VISIBLE_DEVICES" in environ:
        names: list[str] = []
        for name in environ["CUDA_VISIBLE_DEVICES"].split(","):
            if not name.strip() or name.strip() == "-1":
                break  # as CUDA does: what follows is hidden
            names.append(name.strip())
        return names
    try:
        return [str(index) for index, _ in enumerate(driver.iterdir())]
    except OSError:
        return []


def share_gpus(
    gpus: list[str], workers: int, devices_per_worker: int | None
) -> list[list[str]] | None:
    """The GPUs of each worker, or None on a machine without any.

    Raises:
      StrategyError: there are not enough for all.
    """
    if not gpus:
        return None
    each = devices_per_worker or max(1, len(gpus) // workers)
    if each * workers > len(gpus):
        raise StrategyError(
            f"{workers} workers with {each} GPU{'' if each == 1 else 's'} each need "
            f"{each * workers}, and there are {len(gpus)}: two workers cannot share one.",
            hint="Start fewer workers, or set CUDA_VISIBLE_DEVICES=-1 to train on the CPU.",
        )
    return [gpus[each * worker : each * (worker + 1)] for worker in range(workers)]
