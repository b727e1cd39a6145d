"""Section ``strategy``: on which devices, and how they exchange gradients."""

from __future__ import annotations

from dataclasses import dataclass

from tfdp.config.checks import (
    at_least,
    device_list,
    less_than,
    more_than,
    one_of,
    positive_or_auto,
)
from tfdp.config.names import BETWEEN, COMPRESSIONS, CROSS_DEVICE_OPS, STRATEGY_KINDS
from tfdp.config.section import Rule, Section, setting


def _only_two_levels_have_a_between(cross_device_ops: str, between: str) -> str | None:
    if between != "auto" and cross_device_ops != "two_level":
        return (
            f'is "{between}", which is a choice of cross_device_ops two_level, '
            f"and that is {cross_device_ops}"
        )
    return None


def _single_has_one_device(
    kind: str, devices: int | tuple[str, ...] | None, cpu_devices: int
) -> str | None:
    count = cpu_devices if devices is None else device_count(devices)
    if kind == "single" and count is not None and count > 1:
        return (
            f'strategy kind "single" trains on one device, but {count} are set; '
            'use kind "mirrored", or set devices (or cpu_devices) to 1'
        )
    return None


@dataclass(frozen=True, kw_only=True)
class StrategyConfig(Section):
    """On which devices to train, and how they exchange gradients."""

    kind: str = setting(
        "auto: multi_worker if TF_CONFIG names a cluster, mirrored on two or more GPUs, "
        f"else single. One of {', '.join(STRATEGY_KINDS)}.",
        one_of(STRATEGY_KINDS, what="strategy kind"),
        default="auto",
    )
    devices: int | tuple[str, ...] | None = setting(
        "Devices of this worker, each is one replica: a count, or a list of names such as "
        '"GPU:0". null: all GPUs, or cpu_devices where there is none.',
        device_list,
        default=None,
    )
    cpu_devices: int = setting(
        "Logical CPU devices, each is one replica, where devices is null and there is no GPU.",
        at_least(1),
        default=1,
    )
    cross_device_ops: str = setting(
        "How replicas sum their gradients. auto picks by device and logs its reason. "
        f"One of {', '.join(CROSS_DEVICE_OPS)}.",
        one_of(CROSS_DEVICE_OPS, what="cross_device_ops"),
        default="auto",
    )
    between: str = setting(
        "What cross_device_ops two_level uses between workers; auto is mpi where the workers are "
        f"ranks of MPI, else ring (TensorFlow's). One of {', '.join(BETWEEN)}.",
        one_of(BETWEEN, what="between"),
        default="auto",
    )
    compression: str = setting(
        "Shorten gradients on their way between workers: bf16 and fp16 round them to half the "
        "bytes; powersgd and topk send a part now and the rest later. With cross_device_ops "
        "two_level or mpi. "
        f"One of {', '.join(COMPRESSIONS)}.",
        one_of(COMPRESSIONS, what="compression"),
        default="none",
    )
    compression_rank: int = setting(
        "Rank of the matrices that powersgd sends.", at_least(1), default=4
    )
    compression_ratio: float = setting(
        "Part of a gradient's elements that topk sends, above 0 and below 1.",
        more_than(0),
        less_than(1),
        default=0.01,
    )
    compression_warmup_steps: int = setting(
        "First steps in which topk and powersgd send gradients whole.", at_least(0), default=0
    )
    bucket_mb: float | str = setting(
        "MB (of 2**20 bytes) of gradients that are summed as one buffer, as soon as the backward "
        "pass has made them: a positive number, or auto, which is 4.",
        positive_or_auto,
        default="auto",
    )
    autotune: bool = setting(
        "Choose cross_device_ops and bucket_mb, where they are auto, by a timed trial of some "
        "seconds at the start; autotune.json in the run directory says what was found.",
        default=False,
    )
    sync_batch_norm: bool = setting(
        "Make every BatchNormalization layer use the statistics of the whole global batch. "
        "Without it each replica uses its own rows and the result differs from one device.",
        default=False,
    )

    rules = (
        Rule(("kind", "devices", "cpu_devices"), _single_has_one_device, blame="devices"),
        Rule(("cross_device_ops", "between"), _only_two_levels_have_a_between, blame="between"),
    )

    @property
    def uses_mpi(self) -> bool:
        """Whether the workers have to be ranks of MPI."""
        return "mpi" in (self.cross_device_ops, self.between)

    def devices_with(self, gpus: int) -> int | tuple[str, ...]:
        """What `devices` comes to on a machine with `gpus` GPUs: a count, or names."""
        if self.devices is not None:
            return self.devices
        return gpus or self.cpu_devices


def device_count(devices: int | tuple[str, ...] | None) -> int | None:
    """How many devices are asked for, or None where the machine decides."""
    if devices is None or isinstance(devices, int):
        return devices
    return len(devices)
