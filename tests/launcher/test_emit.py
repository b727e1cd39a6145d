"""The manifest against a schema of the published resource; the script run by bash."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tfdp.errors import ConfigError
from tfdp.launcher.emit import Job, kubernetes_manifest, slurm_script

SCHEMA = json.loads((Path(__file__).parent / "schemas" / "tfjob_v1.json").read_text())
DEADLINE_SECONDS = 30
RESUME = ("--resume", "auto")

NASTY = ("prog", "a b", "$HOME", "$(touch x)", "'; touch x; '", '"', "*", "\\")


def job(**changes: Any) -> Job:
    settings: dict[str, Any] = {"name": "mine", "command": ("prog", "--x"), "workers": 3}
    return Job(**(settings | changes))


def manifest(**changes: Any) -> Any:
    return yaml.safe_load(kubernetes_manifest(job(image="registry/image:1", **changes)))


VARIANTS: list[dict[str, Any]] = [
    {},
    {"gpus_per_worker": 2},
    {"max_restarts": 5, "grace_seconds": 12.5},
    {"start_timeout_seconds": 30.0, "command": NASTY},
]


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("changes", VARIANTS)
def test_the_manifest_fits_the_published_schema(changes: dict[str, Any]) -> None:
    jsonschema.validate(manifest(**changes), SCHEMA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("apiVersion",), "kubeflow.org/v2"),
        (("spec", "runPolicy", "cleanPodPolicy"), "Sometimes"),
        (("spec", "tfReplicaSpecs", "Worker", "restartPolicy"), "Maybe"),
        (("spec", "tfReplicaSpecs", "Worker", "replica"), 3),
        (("spec", "tfReplicaSpecs", "worker"), {}),
    ],
)
def test_the_schema_notices_mistakes(path: tuple[str, ...], value: Any) -> None:
    document = manifest()
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


def test_the_manifest_says_what_was_asked_for() -> None:
    document = manifest(
        gpus_per_worker=2, max_restarts=5, command=NASTY, grace_seconds=12.5, resume=RESUME
    )
    assert document["metadata"]["name"] == "mine"
    assert document["spec"]["runPolicy"]["backoffLimit"] == 15
    worker = document["spec"]["tfReplicaSpecs"]["Worker"]
    assert (worker["replicas"], worker["restartPolicy"]) == (3, "OnFailure")
    pod = worker["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 13
    (container,) = pod["containers"]
    assert container["command"] == [*NASTY, "--resume", "auto"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 2}
    # The operator looks for these two names.
    assert container["name"] == "tensorflow"
    assert container["ports"] == [{"name": "tfjob-port", "containerPort": 2222}]


def test_without_an_image() -> None:
    with pytest.raises(ConfigError, match="needs the container image"):
        kubernetes_manifest(job())


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "1a", "a" * 51, "a\n#SBATCH"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(ConfigError, match="--name must be"):
        job(name=name)


FAKE_SRUN = """#!/bin/bash
echo "$TFDP_RESTARTS $TFDP_START_TIMEOUT" >> started
printf '%s\\n' "$@" > "arguments-$TFDP_RESTARTS"
[ "$TFDP_RESTARTS" -ge "${GOOD_AT:-0}" ] || exit "${STATUS:-5}"
"""

FAKE_SCONTROL = """#!/bin/bash
printf '%s\\n' "$@" > scontrol
"""


def run_script(folder: Path, text: str, **variables: str) -> int:
    programs = folder / "bin"
    programs.mkdir()
    for name, code in (("srun", FAKE_SRUN), ("scontrol", FAKE_SCONTROL)):
        (programs / name).write_text(code)
        (programs / name).chmod(0o755)
    script = folder / "job.sbatch"
    script.write_text(text)
    environ = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"} | variables
    return subprocess.run(
        ["bash", str(script)], cwd=folder, env=environ, timeout=DEADLINE_SECONDS, check=False
    ).returncode


def arguments(folder: Path, attempt: int) -> list[str]:
    return (folder / f"arguments-{attempt}").read_text().splitlines()


@pytest.mark.multi_process
def test_the_script_starts_one_step(tmp_path: Path) -> None:
    assert run_script(tmp_path, slurm_script(job(command=NASTY))) == 0
    assert (tmp_path / "started").read_text() == "0 120\n"
    assert arguments(tmp_path, 0)[-len(NASTY) :] == list(NASTY)
    assert not (tmp_path / "x").exists()


@pytest.mark.multi_process
def test_the_script_starts_again_and_then_resumes(tmp_path: Path) -> None:
    text = slurm_script(job(max_restarts=2, resume=RESUME, start_timeout_seconds=7.5))
    assert run_script(tmp_path, text, GOOD_AT="1") == 0
    assert (tmp_path / "started").read_text() == "0 7.5\n1 7.5\n"
    assert arguments(tmp_path, 0)[-2:] == ["prog", "--x"]
    assert arguments(tmp_path, 1)[-4:] == ["prog", "--x", *RESUME]
    assert not (tmp_path / "scontrol").exists()


@pytest.mark.multi_process
def test_the_script_resumes_what_slurm_has_put_back_into_the_queue(tmp_path: Path) -> None:
    text = slurm_script(job(max_restarts=1, resume=RESUME))
    assert run_script(tmp_path, text, SLURM_RESTART_COUNT="1") == 0
    assert arguments(tmp_path, 0)[-2:] == list(RESUME)


@pytest.mark.multi_process
def test_a_job_that_was_told_to_end_and_has_saved_goes_back_into_the_queue(tmp_path: Path) -> None:
    text = slurm_script(job(max_restarts=2, resume=RESUME))
    assert run_script(tmp_path, text, GOOD_AT="9", STATUS="75", SLURM_JOB_ID="4711") == 75
    assert (tmp_path / "scontrol").read_text() == "requeue\n4711\n"
    assert (tmp_path / "started").read_text() == "0 120\n"


@pytest.mark.multi_process
def test_the_script_gives_up_with_the_last_exit_code(tmp_path: Path) -> None:
    assert run_script(tmp_path, slurm_script(job(max_restarts=2)), GOOD_AT="9") == 5
    assert len((tmp_path / "started").read_text().splitlines()) == 3


def test_what_slurm_is_asked_for() -> None:
    lines = slurm_script(job(gpus_per_worker=2, grace_seconds=45)).splitlines()
    assert lines[0] == "#!/bin/bash"
    options = [line.removeprefix("#SBATCH --") for line in lines if line.startswith("#SBATCH")]
    assert {"ntasks=3", "gpus-per-task=2", "signal=TERM@45", "requeue"} <= set(options)
