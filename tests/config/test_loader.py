from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tfdp.config import Config, DataConfig, ModelConfig, load_config
from tfdp.errors import ConfigError

MINIMAL = "version: 1\ndata: {name: fashion_mnist}\nmodel: {name: resnet_small}\n"


def write(directory: Path, text: str | bytes) -> Path:
    path = directory / "train.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def problems_of(path: Path, *overrides: str) -> list[str]:
    """The problems, without the directory of the file."""
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    return [problem.replace(f"{path.parent}{os.sep}", "") for problem in caught.value.problems]


def test_defaults_are_those_of_the_dataclasses(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, MINIMAL)) == Config(
        version=1,
        data=DataConfig(name="fashion_mnist"),
        model=ModelConfig(name="resnet_small"),
        module_directory=str(tmp_path),
    )


def test_every_problem_at_once_with_its_place(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """\
version: 1
strategy:
  kind: mirored
  devices: 8
data:
  nam: fashion_mnist
  global_batch: 0
model:
  name: resnet_small
  epochs: 3
optimizer: 3
training:
  epochs: 3.5
  metrics:
    - accuracy
    - 3
output:
  checkpoints:
    keep: 0
colour: red
""",
    )
    found = problems_of(path, "training.seed=-1", "training.epoch=3")
    assert [problem.split(": ")[:2] for problem in found] == [
        ["train.yaml:20", "colour"],
        ["train.yaml:3", "strategy.kind"],
        ["train.yaml:6", "data.nam"],
        ["train.yaml:7", "data.global_batch"],
        ["train.yaml:6", "data.name"],
        ["train.yaml:10", "model.epochs"],
        ["train.yaml:11", "optimizer"],
        ["--set training.epoch=3", "training.epoch"],
        ["train.yaml:13", "training.epochs"],
        ["--set training.seed=-1", "training.seed"],
        ["train.yaml:15", "training.metrics"],
        ["train.yaml:19", "output.checkpoints.keep"],
    ]
    assert found[5].endswith('did you mean "training.epochs"?')


def test_missing_sections_are_all_reported(tmp_path: Path) -> None:
    assert problems_of(write(tmp_path, "training: {epochs: 1}\n")) == [
        "train.yaml:1: version: is missing",
        "train.yaml:1: data.name: is missing: set either name or function",
        "train.yaml:1: model.name: is missing: set either name or function",
    ]


def test_an_empty_section_has_its_defaults(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, MINIMAL + "training:\n"))
    assert config.training.epochs == 1


def test_conflict_between_sections_has_the_place_to_change(tmp_path: Path) -> None:
    text = (
        "version: 1\nstrategy: {devices: 8}\nmodel: {name: resnet_small}\n"
        "data:\n  name: fashion_mnist\n  global_batch: 7\n"
    )
    (problem,) = problems_of(write(tmp_path, text))
    assert problem.startswith("train.yaml:6: data.global_batch: must be at least the number of rep")


def test_a_newer_version_is_the_only_thing_said(tmp_path: Path) -> None:
    path = write(tmp_path, "version: 2\nnew_section: {}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert caught.value.problems == [f"{path}:1: version: is 2, but this tfdp reads version 1"]
    assert caught.value.hint == "The config was written for a newer tfdp: update tfdp."


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "train.yaml: the file is empty"),
        (b"# a comment\n", "train.yaml: the file is empty"),
        (b"- a\n", "train.yaml: must be a mapping of keys to values"),
        (b"hello\n", "train.yaml: must be a mapping of keys to values"),
        (b"a: \xff\n", "train.yaml: is not UTF-8 text (byte 3 is 0xff)"),
        ("version: 1\n".encode("utf-16"), "train.yaml: is not UTF-8 text (byte 0 is 0xff)"),
    ],
)
def test_files_that_are_no_config(tmp_path: Path, content: bytes, message: str) -> None:
    assert problems_of(write(tmp_path, content)) == [message]


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, b"\xef\xbb\xbf" + MINIMAL.encode())).version == 1


def test_no_such_file(tmp_path: Path) -> None:
    assert problems_of(tmp_path / "none.yaml") == ["none.yaml: there is no such file"]


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory, not a config file"):
        load_config(tmp_path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert problems_of(tmp_path / "pipe") == ["pipe: is not a regular file"]


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    # chmod would not do: root, as whom containers run tests, may read every file.
    monkeypatch.setattr(Path, "read_text", refuse)
    path = write(tmp_path, MINIMAL)
    assert problems_of(path) == ["train.yaml: cannot be read: Permission denied"]


def test_a_name_that_no_file_can_have() -> None:
    with pytest.raises(ConfigError, match=r"cannot be read|there is no such file"):
        load_config("a\0b")
    with pytest.raises(ConfigError, match=r"cannot be read|there is no such file"):
        load_config("a" * 5000)


USER = "version: 1\ndata: {function: 'my_data:load'}\nmodel: {name: resnet_small}\n"


def test_a_module_is_looked_for_beside_the_config(tmp_path: Path) -> None:
    path = write(tmp_path, USER)
    (problem,) = problems_of(path)
    assert problem.startswith('train.yaml:2: data.function: there is no module "my_data" in ')
    (tmp_path / "my_data.py").write_text("raise AssertionError('must not be imported')")
    assert load_config(path).data.function == "my_data:load"


def test_module_directory_is_relative_to_the_config(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "my_data.py").touch()
    (tmp_path / "configs").mkdir()
    path = write(tmp_path / "configs", USER + "module_directory: ../code\n")
    assert load_config(path).module_directory == str(tmp_path / "code")


def test_an_installed_package_is_found(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, USER.replace("my_data", "numpy.random")))
