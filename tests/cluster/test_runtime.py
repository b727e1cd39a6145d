from __future__ import annotations

import os
import sys
import types

import pytest

from tfdp.cluster import runtime
from tfdp.cluster.runtime import RUNTIME_SETTINGS, tune_runtime, why
from tfdp.errors import StrategyError

ALWAYS = {
    "TF_ENABLE_ONEDNN_OPTS": "1",
    "TF_GPU_THREAD_MODE": "gpu_private",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
}


def test_sets_and_returns() -> None:
    environ = {"HOME": "/"}
    assert tune_runtime(environ=environ) == ALWAYS
    assert environ == {"HOME": "/", **ALWAYS}


def test_what_the_user_has_set_stays() -> None:
    environ = {"TF_ENABLE_ONEDNN_OPTS": "0", "OMP_NUM_THREADS": "", "TF_CPP_MIN_LOG_LEVEL": "0"}
    before = dict(environ)
    made = tune_runtime(workers_on_host=2, log_level=1, environ=environ)
    assert not made.keys() & before.keys()
    assert environ == {**before, **made}


@pytest.mark.parametrize(
    ("cores", "workers", "threads", "inter"),
    [(8, 2, "4", "4"), (8, 3, "2", "2"), (2, 2, "1", "2"), (2, 4, "1", "2")],
)
def test_workers_on_one_host_share_the_cores(
    cores: int, workers: int, threads: str, inter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "usable_cores", lambda: cores)
    assert tune_runtime(workers_on_host=workers, environ={}) == ALWAYS | {
        "TF_NUM_INTRAOP_THREADS": threads,
        "TF_NUM_INTEROP_THREADS": inter,
        "OMP_NUM_THREADS": threads,
    }


def test_usable_cores_are_those_the_process_may_run_on() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert runtime.usable_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert runtime.usable_cores() == len(allowed)


def test_log_level() -> None:
    assert tune_runtime(log_level=1, environ={})["TF_CPP_MIN_LOG_LEVEL"] == "1"


def test_every_setting_is_described() -> None:
    made = tune_runtime(workers_on_host=2, log_level=1, environ={})
    assert set(made) == {setting.name for setting in RUNTIME_SETTINGS}
    assert all(why(name) for name in made)


def test_the_process_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ALWAYS:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    assert tune_runtime() == ALWAYS
    assert {name: os.environ[name] for name in ALWAYS} == ALWAYS


def test_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", types.ModuleType("tensorflow"))
    before = dict(os.environ)
    with pytest.raises(StrategyError, match="TensorFlow is already imported") as caught:
        tune_runtime()
    assert caught.value.hint is not None
    assert "before the first import of tensorflow or keras" in caught.value.hint
    assert dict(os.environ) == before
    assert tune_runtime(environ={}) == ALWAYS


def test_workers_on_host_below_1() -> None:
    with pytest.raises(StrategyError, match="workers_on_host must be at least 1, got 0"):
        tune_runtime(workers_on_host=0, environ={})
