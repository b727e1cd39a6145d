"""GPUs and NCCL as TensorFlow sees them, in another process: a broken driver may hang it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfdp.cluster.doctor.base import Finding, Patient, failed, passed, warned

_PROGRAM = """
import json, sys
import tensorflow as tf
gpus = tf.config.list_physical_devices("GPU")
names = [tf.config.experimental.get_device_details(gpu).get("device_name", "GPU") for gpu in gpus]
build = tf.sysconfig.get_build_info()
print(json.dumps({"gpus": names, "cuda": bool(tf.test.is_built_with_cuda()),
                  "cuda_version": str(build.get("cuda_version", ""))}))
"""
_DRIVER = Path("/proc/driver/nvidia/version")


def check_devices(patient: Patient) -> Iterator[Finding]:
    """Imports TensorFlow, lists its devices, and asks for NCCL where there are several GPUs."""
    seen = _ask_tensorflow(patient)
    if isinstance(seen, Finding):
        yield seen
        return
    yield _devices(seen, patient, driver=_DRIVER.exists())
    yield _nccl(seen)


def _ask_tensorflow(patient: Patient) -> dict[str, Any] | Finding:
    environ = dict(patient.environ) | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    environ.pop("TF_CONFIG", None)
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env=environ,
            timeout=patient.timeout_seconds,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return failed(
            "devices",
            f"TensorFlow did not list its devices within {patient.timeout_seconds:g} s",
            "Look at nvidia-smi: a driver may hang. On a slow disk try again.",
        )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return failed(
            "devices",
            f"TensorFlow cannot be loaded (exit code {done.returncode}): {last}",
            "Install TensorFlow again in a fresh virtual environment.",
        )
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def _devices(seen: dict[str, Any], patient: Patient, *, driver: bool) -> Finding:
    gpus: list[str] = seen["gpus"]
    hidden = patient.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if not gpus and driver and not hidden:
        reason = "" if seen["cuda"] else ": it is built without CUDA"
        return warned(
            "devices",
            f"there is an NVIDIA driver, but TensorFlow sees no GPU{reason}",
            "pip install 'tensorflow[and-cuda]', and look at nvidia-smi and CUDA_VISIBLE_DEVICES.",
        )
    if gpus and patient.devices is not None and patient.devices > len(gpus):
        return failed(
            "devices",
            f"{patient.devices} devices are asked for, and TensorFlow sees {len(gpus)} GPU(s)",
            "Set strategy.devices to at most that.",
        )
    if not gpus:
        return passed("devices", f"no GPU, {cores} CPU cores")
    return passed("devices", f"{len(gpus)} GPU(s) ({', '.join(sorted(set(gpus)))}), {cores} cores")


def _nccl(seen: dict[str, Any]) -> Finding:
    if len(seen["gpus"]) < 2:
        return passed("nccl", "not needed with fewer than two GPUs here")
    if seen["cuda"]:
        return passed("nccl", f"part of this TensorFlow (CUDA {seen['cuda_version']})")
    return warned(
        "nccl",
        "this TensorFlow is built without it",
        "pip install 'tensorflow[and-cuda]', or use another strategy.cross_device_ops.",
    )
