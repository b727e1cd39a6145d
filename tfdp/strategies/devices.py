"""Which devices a strategy runs on."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfdp.collectives import Topology
from tfdp.errors import StrategyError

_LATE = (
    "TensorFlow has already started, so the machine's CPU cannot be split any more: it has "
    "{have} logical CPU device{s}, and {want} were asked for."
)
_LATE_HINT = (
    "Create the strategy before anything else that uses TensorFlow: before the first tensor, "
    "model or data set. In a notebook: restart the kernel and create the strategy in the first "
    "cell."
)


def local_devices(devices: int | Sequence[str] | None) -> tuple[str, ...]:
    """Names of the local devices, one for each replica.

    Args:
        devices: how many, or which ones ("GPU:0", "/device:CPU:1", ...). None means all GPUs, or
            one CPU device where there is no GPU. On a machine without GPUs a count makes that
            many logical CPU devices.

    Raises:
        StrategyError: a count below 1, more devices than there are, an unknown or repeated name,
            CPU and GPU mixed, or logical CPU devices asked for after TensorFlow started.
    """
    if devices is None:
        return _all_gpus() or ("CPU:0",)
    if isinstance(devices, bool) or not isinstance(devices, (int, Sequence)):
        raise StrategyError(
            f"devices={devices!r} is neither a count nor a list of device names.",
            hint='Write devices=4, or devices=["GPU:0", "GPU:1"].',
        )
    if isinstance(devices, int):
        return _first(devices)
    return _named([devices] if isinstance(devices, str) else devices)


def topology(devices: Sequence[str], workers: int) -> Topology:
    """What a reducer has to know about these devices."""
    device_type = "GPU" if "GPU" in devices[0].upper() else "CPU"
    physical = len(tf.config.list_physical_devices("GPU"))
    virtual = device_type == "GPU" and _logical_count("GPU") > physical
    return Topology(workers, len(devices), device_type, virtual)


def _logical_count(device_type: str) -> int:
    """Logical devices there are or will be, found out without starting TensorFlow.

    Listing the logical devices would start it, and then a worker could not join a cluster.
    """
    planned = 0
    for device in tf.config.list_physical_devices(device_type):
        planned += len(tf.config.get_logical_device_configuration(device) or [device])
    return planned


def _all_gpus() -> tuple[str, ...]:
    return tuple(f"GPU:{i}" for i in range(_logical_count("GPU")))


def _first(count: int) -> tuple[str, ...]:
    if count < 1:
        raise StrategyError(f"devices={count} leaves no device to train on; ask for 1 or more.")
    gpus = _all_gpus()
    if gpus:
        if count > len(gpus):
            raise StrategyError(
                f"devices={count} were asked for, and TensorFlow sees {_count(len(gpus), 'GPU')}.",
                hint="Ask for fewer, or look at nvidia-smi and CUDA_VISIBLE_DEVICES.",
            )
        return gpus[:count]
    _split_cpu(count)
    return tuple(f"CPU:{i}" for i in range(count))


def _split_cpu(count: int) -> None:
    """Makes `count` logical CPU devices of the machine's one, if there are not enough yet."""
    have = _logical_count("CPU")
    if have >= count:
        return
    try:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * count,
        )
    except RuntimeError as error:
        message = _LATE.format(have=have, s="" if have == 1 else "s", want=count)
        raise StrategyError(message, hint=_LATE_HINT) from error


def _named(names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        raise StrategyError("devices=[] leaves no device to train on; name at least one.")
    short = []
    for name in names:
        try:
            spec = tf.DeviceSpec.from_string(name if name.startswith("/") else f"/device:{name}")
        except (ValueError, AttributeError) as error:
            raise StrategyError(
                f"{name!r} in devices is not the name of a device.",
                hint='Device names look like "GPU:0" or "/device:CPU:1".',
            ) from error
        if spec.device_type not in ("CPU", "GPU") or spec.device_index is None:
            raise StrategyError(
                f"{name!r} in devices does not name a CPU or GPU and its index.",
                hint='Device names look like "GPU:0" or "/device:CPU:1".',
            )
        short.append(f"{spec.device_type}:{spec.device_index}")
    if len(set(short)) < len(short):
        raise StrategyError(f"devices={list(names)} names a device twice; each is one replica.")
    types = {name.split(":")[0] for name in short}
    if len(types) > 1:
        raise StrategyError(f"devices={list(names)} mixes CPUs and GPUs; replicas must be alike.")
    if types == {"CPU"}:
        _split_cpu(1 + max(int(name.split(":")[1]) for name in short))
    known = [f"{kind}:{i}" for kind in ("CPU", "GPU") for i in range(_logical_count(kind))]
    missing = [name for name in short if name not in known]
    if missing:
        raise StrategyError(
            f"{', '.join(missing)} in devices cannot be found; TensorFlow sees {', '.join(known)}."
        )
    return tuple(short)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
