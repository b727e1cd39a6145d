from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfdp.cli import doctor
from tfdp.cli.main import main
from tfdp.cluster.doctor import Finding, Patient, Status

GOOD = Finding("memory", Status.PASS, "enough")
BAD = Finding("dns", Status.FAIL, "a does not resolve", "Correct the name.")
TIGHT = Finding("disk", Status.WARN, "1.0 GB free", "Make room.")


class Examination(list[Patient]):
    """The patients that were examined; `findings` is what comes out."""

    findings: tuple[Finding, ...] = (GOOD,)

    def __call__(self, patient: Patient) -> Iterator[Finding]:
        self.append(patient)
        return iter(self.findings)


@pytest.fixture(name="examination")
def _examination(monkeypatch: pytest.MonkeyPatch) -> Examination:
    examination = Examination()
    monkeypatch.setattr(doctor, "examine", examination)
    return examination


@pytest.mark.parametrize(
    ("findings", "code"), [((GOOD,), 0), ((GOOD, TIGHT), 0), ((BAD, TIGHT, GOOD), 1)]
)
def test_exit_code(
    findings: tuple[Finding, ...],
    code: int,
    examination: Examination,
    capsys: pytest.CaptureFixture[str],
) -> None:
    examination.findings = findings
    assert main(["doctor"]) == code
    assert main(["doctor", "--json"]) == code


def test_text(examination: Examination, capsys: pytest.CaptureFixture[str]) -> None:
    examination.findings = (GOOD, BAD)
    main(["doctor"])
    assert capsys.readouterr().out == (
        "pass  memory         enough\n"
        "fail  dns            a does not resolve\n"
        "                     -> Correct the name.\n"
        "1 pass, 0 warn, 1 fail\n"
    )


def test_json(examination: Examination, capsys: pytest.CaptureFixture[str]) -> None:
    examination.findings = (GOOD, BAD)
    main(["doctor", "--json"])
    assert json.loads(capsys.readouterr().out) == {
        "status": "fail",
        "findings": [
            {"check": "memory", "status": "pass", "message": "enough", "remedy": ""},
            {
                "check": "dns",
                "status": "fail",
                "message": "a does not resolve",
                "remedy": "Correct the name.",
            },
        ],
    }


def test_a_config_says_what_is_needed(
    examination: Examination, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.yaml"
    path.write_text(
        "version: 1\nstrategy: {kind: multi_worker, devices: 3}\ndata: {name: fashion_mnist}\n"
        "model: {name: resnet_small}\noutput: {directory: there}\n"
    )
    assert main(["doctor", str(path)]) == 0
    (patient,) = examination
    assert (patient.output, patient.devices, patient.needs_cluster) == (Path("there"), 3, True)
    assert capsys.readouterr().out.startswith("pass  config  ")


def test_a_config_that_is_wrong(
    examination: Examination, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.yaml"
    path.write_text("version: 1\n")
    assert main(["doctor", str(path)]) == 1
    assert len(examination) == 1
    assert capsys.readouterr().out.startswith(f"fail  config         {path}")
