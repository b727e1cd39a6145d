"""What each command hands on, with the packages that do the work replaced."""

from __future__ import annotations

import json
import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tfdp.cli.main import main
from tfdp.cluster.runtime import RUNTIME_SETTINGS
from tfdp.config import load_config

CONFIG = "version: 1\ndata: {name: fashion_mnist}\nmodel: {name: resnet_small}\n"


class Calls(list[tuple[tuple[Any, ...], dict[str, Any], dict[str, str]]]):
    """Arguments, keyword arguments and environment of each call."""

    def record(self, result: Any) -> Any:
        def function(*arguments: Any, **keywords: Any) -> Any:
            self.append((arguments, keywords, dict(os.environ)))
            return result

        return function


@pytest.fixture(autouse=True)
def _process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in which TensorFlow was not imported and nothing is set."""
    for name in ["TF_CONFIG", *(setting.name for setting in RUNTIME_SETTINGS)]:
        monkeypatch.setenv(name, "")  # so that it is restored if it was not set before
        monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)


@pytest.fixture
def config_path(tmp_path: Path) -> str:
    path = tmp_path / "train.yaml"
    path.write_text(CONFIG)
    return str(path)


def replace(monkeypatch: pytest.MonkeyPatch, module: str, **attributes: Any) -> None:
    stub = types.ModuleType(module)
    for name, value in attributes.items():
        setattr(stub, name, value)
    monkeypatch.setitem(sys.modules, module, stub)


@pytest.fixture
def train_calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls = Calls()
    replace(monkeypatch, "tfdp.training", train=calls.record(None))
    return calls


def test_train(config_path: str, train_calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", config_path]) == 0
    ((arguments, keywords, environ),) = train_calls
    assert arguments == (load_config(config_path),)
    assert keywords == {"resume": False}
    shown = capsys.readouterr()
    assert shown.out == ""  # the training itself shows what there is to show
    for name, value in {
        "TF_ENABLE_ONEDNN_OPTS": "1",
        "TF_GPU_THREAD_MODE": "gpu_private",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "TF_CPP_MIN_LOG_LEVEL": "1",
    }.items():
        assert environ[name] == value
        assert f"tfdp: {name}={value}: " in shown.err
    assert "OMP_NUM_THREADS" not in environ


def test_train_options(config_path: str, train_calls: Calls) -> None:
    sets = ["--set", "data.global_batch=9", "--set", "output.directory=other"]
    first = ["--set", "training.epochs=3"]
    assert main(["train", *first, config_path, "--resume", "--run-dir", "1e3: #x", *sets]) == 0
    ((arguments, keywords, _),) = train_calls
    (config,) = arguments
    assert (config.training.epochs, config.data.global_batch) == (3, 9)
    assert config.output.directory == "1e3: #x"
    assert keywords == {"resume": True}


def test_what_the_user_has_set_is_neither_changed_nor_logged(
    config_path: str,
    train_calls: Calls,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert main(["train", config_path]) == 0
    assert train_calls[0][2]["TF_ENABLE_ONEDNN_OPTS"] == "0"
    assert "TF_ENABLE_ONEDNN_OPTS" not in capsys.readouterr().err


@pytest.mark.parametrize("index", [0, 1])
def test_train_under_tf_config(
    index: int, config_path: str, train_calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = {"worker": ["localhost:1", "localhost:2"]}
    task = {"type": "worker", "index": index}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    assert main(["train", config_path]) == 0
    assert int(train_calls[0][2]["OMP_NUM_THREADS"]) >= 1


def test_train_as_a_slurm_task(
    config_path: str, train_calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = {"PROCID": "1", "NTASKS": "2", "STEP_ID": "0", "JOB_NODELIST": "n[1-2]"}
    for name, value in slurm.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    assert main(["train", config_path]) == 0
    config = json.loads(train_calls[0][2]["TF_CONFIG"])
    assert [worker.partition(":")[0] for worker in config["cluster"]["worker"]] == ["n1", "n2"]
    assert config["task"] == {"type": "worker", "index": 1}


def test_a_malformed_tf_config(
    config_path: str,
    train_calls: Calls,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TF_CONFIG", "{")
    assert main(["train", config_path]) == 3
    assert capsys.readouterr().err.startswith("error: TF_CONFIG is not JSON")
    assert not train_calls


def test_dry_run_prints_the_resolved_config(
    config_path: str, train_calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = dict(os.environ)
    assert main(["train", config_path, "--dry-run", "--set", "training.epochs=3"]) == 0
    shown = capsys.readouterr()
    (tmp_path / "resolved.yaml").write_text(shown.out)
    assert load_config(tmp_path / "resolved.yaml") == load_config(
        config_path, ["training.epochs=3"]
    )
    assert (shown.err, train_calls, dict(os.environ)) == ("", [], before)


def test_train_lists_every_problem(
    config_path: str, train_calls: Calls, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", config_path, "--set", "training.epochs=x", "--set", "a=1"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: --set a=1: a: unknown key")
    assert second.startswith("       --set training.epochs=x: training.epochs: must be an integer")
    assert not train_calls


@pytest.mark.parametrize(
    ("options", "replicas"),
    [([], (1, 2, 4)), (["--replicas", "2"], (2,)), (["--replicas", "3, 8"], (3, 8))],
)
@pytest.mark.parametrize("code", [0, 1])
def test_verify(
    options: list[str],
    replicas: tuple[int, ...],
    code: int,
    config_path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = Calls()
    replace(monkeypatch, "tfdp.parity.command", run=calls.record(code))
    assert main(["verify", config_path, "--set", "training.epochs=3", *options]) == code
    ((arguments, keywords, environ),) = calls
    assert arguments == (load_config(config_path, ["training.epochs=3"]), replicas)
    assert not keywords
    assert environ["TF_ENABLE_ONEDNN_OPTS"] == "1"


@pytest.mark.parametrize("text", ["", "0", "2,2", "a", "1,-2", "1;2"])
def test_replicas_that_make_no_sense(
    text: str, config_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["verify", config_path, f"--replicas={text}"])
    assert caught.value.code == 2
    assert "must be different numbers of at least 1, as in 1,2,4" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "output"), [([], None), (["--output", "a.md"], Path("a.md"))])
def test_features(options: list[str], output: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls()
    replace(monkeypatch, "tfdp.parity.features", run=calls.record(0))
    assert main(["features", *options]) == 0
    ((arguments, keywords, _),) = calls
    assert (arguments, keywords) == ((), {"output": output})
