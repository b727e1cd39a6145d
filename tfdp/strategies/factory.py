"""`tfdp.strategy`: one call that gives the right strategy."""

from __future__ import annotations

import difflib
import logging
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfdp.cluster import heartbeat
from tfdp.cluster.detect import detect_cluster
from tfdp.cluster.rendezvous import meet, start_timeout, version_facts
from tfdp.cluster.tf_config import ClusterInfo
from tfdp.collectives import Reducer, Topology, resolve
from tfdp.collectives.buckets import AUTO, bucket_bytes_of
from tfdp.collectives.compression import NONE, Compression, check_compression
from tfdp.errors import ClusterError, StrategyError
from tfdp.launcher.environment import DEVICES_VARIABLE
from tfdp.strategies.autotune import Choice, tune
from tfdp.strategies.devices import local_devices, topology
from tfdp.strategies.exact import ExactStrategy
from tfdp.strategies.keras_compat import install
from tfdp.strategies.mirrored import MirroredStrategy
from tfdp.strategies.multi_worker import MultiWorkerStrategy

KINDS = ("auto", "single", "mirrored", "multi_worker")

_log = logging.getLogger("tfdp")
_joined: list[tuple[tuple[Any, ...], MultiWorkerStrategy]] = []


def strategy(
    kind: str = "auto",
    *,
    devices: int | Sequence[str] | None = None,
    cross_device_ops: str = "auto",
    between: str = AUTO,
    compression: str = NONE,
    compression_rank: int = 4,
    compression_ratio: float = 0.01,
    compression_warmup_steps: int = 0,
    bucket_mb: float | str = AUTO,
    autotune: bool = False,
    must_agree: Mapping[str, str | int] | None = None,
) -> tf.distribute.Strategy:
    """Makes the strategy to build and compile a Keras model in.

    Args:
        kind: "single", one device. "mirrored", the devices of this machine. "multi_worker", the
            workers that TF_CONFIG names, or else a hosts file, MPI or Slurm. "auto": multi_worker
            if the environment names several workers, mirrored if several devices are asked for or
            there are two GPUs or more, else single.
        devices: of this process: a count, or names such as "GPU:0". None: all GPUs, or one CPU
            device. Without GPUs a count makes that many logical CPU devices.
        cross_device_ops: how gradients are summed, by name: "auto", "nccl", "hierarchical_copy",
            "reduce_to_one", "ring", "two_level", "mpi" or a registered one (see
            `tfdp.collectives.register`).
        between: what "two_level" uses between workers: "ring", "mpi", "nccl", or "auto".
        compression: of gradients between workers: "none"; "bf16" or "fp16", half the bytes and a
            bounded error (see `tfdp.collectives.compression`); "powersgd" or "topk", a part now
            and the rest later (see `tfdp.collectives.error_feedback`). With "two_level" and "mpi".
        compression_rank: of the matrices that "powersgd" sends.
        compression_ratio: of a gradient's elements that "topk" sends.
        compression_warmup_steps: first steps in which "powersgd" and "topk" send everything.
        bucket_mb: MB (of 2**20 bytes) of gradients that are summed as one buffer, as soon as the
            backward pass has made them; "auto" is 4. "reduce_to_one" has no buckets, and
            "hierarchical_copy" one.
        autotune: choose `cross_device_ops` and `bucket_mb`, where they are "auto", by a timed trial
            of some seconds (see `tfdp.strategies.autotune`).
        must_agree: facts by name that have to be the same on all workers, a digest of the config
            say; workers that differ are told so before they start.

    Returns:
        A `tf.distribute.MirroredStrategy`, or for several workers a
        `tf.distribute.MultiWorkerMirroredStrategy`.

    Raises:
        StrategyError: unknown kind, devices or cross-device ops, or a choice that cannot work here.
        ClusterError: TF_CONFIG is malformed, or missing for "multi_worker"; or the workers do not
            find each other within 15 s (TFDP_START_TIMEOUT), or differ in what must be equal.
        UnsupportedError: Keras on another backend, or unsupported versions.
    """
    cluster = detect_cluster(os.environ) if kind in ("auto", "multi_worker") else None
    kind = _choose_kind(kind, devices, cluster)
    heartbeat.current()
    install()
    local = local_devices(_default_devices(kind) if devices is None else devices)
    workers = len(cluster.workers) if cluster and kind == "multi_worker" else 1
    if kind == "single" and len(local) > 1:
        raise StrategyError(
            f'kind="single" trains on one device, and devices={devices!r} asks for {len(local)}.',
            hint='Use kind="mirrored", or leave devices out.',
        )
    bucket_bytes = bucket_bytes_of(bucket_mb)
    shape = topology(local, workers)
    reducer, reason = resolve(cross_device_ops, shape, between)
    wanted = Compression(compression, compression_rank, compression_ratio, compression_warmup_steps)
    check_compression(compression, reducer, shape)
    _log.info("%s: %s, reduced by %s (%s)", kind, shape.describe(), reducer.describe(shape), reason)
    tuned = (cross_device_ops == AUTO, bucket_mb == AUTO) if autotune else (False, False)
    if kind == "multi_worker" and cluster is not None:
        return _multi_worker(
            cluster, local, reducer, shape, wanted, bucket_bytes, tuned, must_agree or {}
        )
    made = MirroredStrategy(local, reducer, shape, bucket_bytes)
    _tune(made, shape, Choice(reducer, bucket_bytes), tuned)
    return made


def _tune(made: ExactStrategy, shape: Topology, first: Choice, tuned: tuple[bool, bool]) -> None:
    """`tuned`: whether the reducer, and the size of the buckets, are to be chosen by trial."""
    if any(tuned) and shape.replicas > 1:
        with heartbeat.activity(heartbeat.Activity.MEETING):
            found = tune(made, shape, first, reducers=tuned[0], buckets=tuned[1])
        made.tfdp_tuning = None if found is None else found.to_plain(shape)


def _multi_worker(
    cluster: ClusterInfo,
    local: tuple[str, ...],
    reducer: Reducer,
    shape: Topology,
    compression: Compression,
    bucket_bytes: int,
    tuned: tuple[bool, bool],
    must_agree: Mapping[str, str | int],
) -> MultiWorkerStrategy:
    """The process's one multi-worker strategy, after the workers have found each other.

    TensorFlow joins a cluster once in a process. Asked for again, as when the cell of a notebook
    runs a second time, the same strategy is returned.
    """
    asked = (cluster, local, reducer.describe(shape), compression.describe(), bucket_bytes, tuned)
    if _joined:
        if _joined[0][0] == asked:
            return _joined[0][1]
        raise StrategyError(
            "this process is part of a group of workers already, with other devices, another "
            "cluster, cross_device_ops, compression or bucket_mb, and TensorFlow joins only once.",
            hint="Start a new process; in a notebook, restart the kernel.",
        )
    facts: dict[str, str | int] = {
        **version_facts(),
        "replicas of each worker": len(local),
        "cross_device_ops": reducer.describe(shape),
        "compression": compression.describe(),
        "bytes of a bucket": bucket_bytes,
        "autotune": str(tuned),
        **must_agree,
    }
    with heartbeat.activity(heartbeat.Activity.MEETING):
        meet(cluster, facts, start_timeout(os.environ))
        made = MultiWorkerStrategy(local, reducer, shape, cluster, compression, bucket_bytes)
        _joined.append((asked, made))
    _give_back_sigterm()
    _tune(made, shape, Choice(reducer, bucket_bytes), tuned)
    return made


def _give_back_sigterm() -> None:
    """TensorFlow takes SIGTERM when it joins a cluster, to tell a handler that tfdp does not use.

    Until `fit` takes it, the signal would be lost: the process would neither save nor end.
    """
    handler = signal.getsignal(signal.SIGTERM)  # as Python knows it, which TensorFlow did not ask
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def _default_devices(kind: str) -> int | None:
    """What `devices=None` means: the launcher may have decided."""
    if kind == "single":
        return 1
    if kind != "multi_worker":
        return None
    text = os.environ.get(DEVICES_VARIABLE, "").strip()
    if text and not text.isdecimal():
        raise ClusterError(f"{DEVICES_VARIABLE}={text!r} is not a number of devices.")
    return int(text) if text else None


def _choose_kind(
    kind: str, devices: int | Sequence[str] | None, cluster: ClusterInfo | None
) -> str:
    if kind not in KINDS:
        near = difflib.get_close_matches(str(kind), KINDS, n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise StrategyError(f"kind={kind!r} is not known.{meant} Known: {', '.join(KINDS)}.")
    if kind == "multi_worker" and cluster is None:
        raise ClusterError(
            'kind="multi_worker" needs to know the other workers, and neither TF_CONFIG nor a '
            "hosts file, MPI or Slurm names them.",
            hint='Set TF_CONFIG, for example: {"cluster": {"worker": ["host1:12345", '
            '"host2:12345"]}, "task": {"type": "worker", "index": 0}}; or use kind="mirrored".',
        )
    if kind != "auto":
        return kind
    if cluster is not None:
        return "multi_worker"
    if devices is None:
        count = len(tf.config.list_physical_devices("GPU"))
    elif isinstance(devices, (int, str)):
        count = devices if isinstance(devices, int) else 1
    else:
        count = len(devices)
    return "mirrored" if count > 1 else "single"


__all__ = ["KINDS", "strategy"]
