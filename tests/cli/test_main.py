from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfdp
from tfdp.cli import main as cli
from tfdp.cli import train
from tfdp.cli.common import spell_resume_out
from tfdp.cluster.runtime import RUNTIME_SETTINGS
from tfdp.config.reference import describe_keys
from tfdp.errors import ConfigError, PreemptedError, RunError, UnsupportedError

DEADLINE_SECONDS = 60

LEAVES_TENSORFLOW_ALONE = """
import sys
from tfdp.cli.main import main
try:
    code = main(sys.argv[1:])
except SystemExit as error:
    code = error.code
heavy = [name for name in ("tensorflow", "keras", "numpy", "rich") if name in sys.modules]
assert not heavy, heavy
sys.exit(code)
"""


def run_with(monkeypatch: pytest.MonkeyPatch, action: Callable[[Any], int]) -> int:
    monkeypatch.setattr(train, "run", action)
    return cli.main(["train", "config.yaml"])


def failing_with(error: BaseException) -> Callable[[Any], int]:
    def action(_: Any) -> int:
        raise error

    return action


@pytest.mark.multi_process
@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["train", "--help"],
        ["launch", "--help"],
        ["doctor", "--help"],
        ["verify", "--help"],
        ["features", "--help"],
        ["train", "configs/quickstart.yaml", "--dry-run"],
    ],
)
def test_starts_fast_since_nothing_heavy_is_loaded(arguments: list[str], repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAVES_TENSORFLOW_ALONE, *arguments],
        cwd=repository,
        timeout=DEADLINE_SECONDS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.multi_process
def test_python_m_tfdp(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tfdp", "train", "no_such.yaml"],
        cwd=repository,
        timeout=DEADLINE_SECONDS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: no_such.yaml: there is no such file\n"


@pytest.mark.parametrize("command", [[], ["train"], ["launch"], ["verify"], ["features"]])
def test_help_names_every_runtime_setting(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([*command, "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    for setting in RUNTIME_SETTINGS:
        assert f"{setting.name}={setting.value}" in shown


def test_help_of_train_names_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["train", "--help"])
    shown = capsys.readouterr().out
    for key in describe_keys():
        assert f"  {key.name}: {key.type} ({key.default})\n" in shown


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"tfdp {tfdp.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["trian"], ["train"], ["train", "a", "--nope"]])
def test_arguments_that_cannot_be_parsed(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: tfdp")


def test_an_error_is_shown_without_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = RunError("runs/a exists", hint="Use --resume.")
    assert run_with(monkeypatch, failing_with(error)) == 6
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "error: runs/a exists\nhint: Use --resume.\n")


def test_several_problems_stand_below_each_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with(monkeypatch, failing_with(ConfigError(["one", "two"]))) == 2
    assert capsys.readouterr().err == "error: one\n       two\n"


def test_an_error_without_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with(monkeypatch, failing_with(UnsupportedError(""))) == 7
    assert capsys.readouterr().err == "error: \n"


def test_ctrl_c(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_with(monkeypatch, failing_with(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_fault_of_our_own_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        run_with(monkeypatch, failing_with(ZeroDivisionError()))


@pytest.mark.multi_process
def test_a_reader_that_leaves_causes_no_traceback(repository: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tfdp", "train", "configs/quickstart.yaml", "--dry-run"],
        cwd=repository,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    errors = process.stderr.read()
    assert (process.wait(DEADLINE_SECONDS), errors) == (1, "")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["train", "--resume", "a.yaml"], ["train", "--resume=always", "a.yaml"]),
        (["train", "a.yaml", "--resume"], ["train", "a.yaml", "--resume=always"]),
        (["train", "--resume", "auto", "a.yaml"], ["train", "--resume", "auto", "a.yaml"]),
        (["train", "--resume=auto", "a.yaml"], ["train", "--resume=auto", "a.yaml"]),
        (
            ["launch", "--", "python", "train.py", "--resume", "x"],
            ["launch", "--", "python", "train.py", "--resume", "x"],
        ),
    ],
    ids=" ".join,
)
def test_resume_takes_no_config_for_its_value(given: list[str], expected: list[str]) -> None:
    assert spell_resume_out(given) == expected


def test_what_has_saved_is_not_hurt_while_it_leaves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Schedulers send SIGTERM to a launcher, which sends it on, and to its workers."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert run_with(monkeypatch, failing_with(PreemptedError("saved"))) == 75
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capsys.readouterr().err == "error: saved\n"
