"""Fashion-MNIST through tensorflow-datasets, from small files in the original form."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.originals import write_originals
from tfdp.cli.main import build_parser
from tfdp.data.batches import EpochBatches
from tfdp.data.images import CLASS_NAMES
from tfdp.data.sources.registry import Context, load_source
from tfdp.data.tools.audit import AuditOptions, audit
from tfdp.data.tools.audit_report import rows_of
from tfdp.data.tools.commands import run_prepare
from tfdp.data.tools.prepare import prepare
from tfdp.data.tools.subject import Subject, find_subject
from tfdp.errors import ConfigError, DataError

ROWS = 47


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[np.ndarray, ...]]:
    """A folder of prepared data sets, and what is in them."""
    folder = tmp_path_factory.mktemp("tfds")
    arrays = write_originals(folder / "idx", train=ROWS, test=9)
    found = prepare("fashion_mnist_local", folder / "idx", folder / "data")
    assert (found.rows, found.already) == ({"train": ROWS, "test": 9}, False)
    assert [path.name for path in (folder / "data").iterdir()] == ["fashion_mnist_local"]
    return folder / "data", arrays


def loaded(data_dir: Path, **arguments: Any) -> Any:
    given = {"dataset": "fashion_mnist_local", "data_dir": str(data_dir), **arguments}
    return load_source("tfds", given, Context())


def rows_in(batches: EpochBatches, worker: int, workers: int) -> list[list[bytes]]:
    """The pictures in each piece of a worker with one replica, as bytes."""
    share = batches.dataset.tfdp_workload.share(worker, workers, 1)
    return [
        [np.rint(row * 255).astype(np.uint8).tobytes() for row in x]
        for x, _ in share.as_numpy_iterator()
    ]


@pytest.mark.parametrize("in_memory", [True, False])
def test_by_name_per_worker_and_resumed(
    prepared: tuple[Path, tuple[np.ndarray, ...]], in_memory: bool
) -> None:
    data_dir, (x, _, _, _) = prepared
    data = loaded(data_dir, validation="test", in_memory=in_memory)
    expected = sorted(row.tobytes() for row in x)
    batches = EpochBatches(data.train, global_batch=12, seed=3)
    alone = rows_in(batches, 0, 1)
    assert sorted(chain(*alone)) == expected
    parts = [rows_in(batches, worker, 3) for worker in range(3)]
    assert sorted(chain(*chain(*parts))) == expected
    # Resumed at step 2, by any number of workers: what one would have read from there on.
    batches.set_position(0, 2)
    for worker in range(3):
        assert rows_in(batches, worker, 3) == parts[worker][2:]
    assert rows_in(batches, 0, 1) == alone[2:]


def test_labels_and_the_test_split(prepared: tuple[Path, tuple[np.ndarray, ...]]) -> None:
    data_dir, (x_train, y_train, x_test, y_test) = prepared
    data = loaded(data_dir, validation="test")
    for part, x, y in ((data.train, x_train, y_train), (data.validation, x_test, y_test)):
        label = {image.tobytes(): int(number) for image, number in zip(x, y, strict=True)}
        batches = EpochBatches(part, global_batch=64, shuffle=False)
        (images, labels), *more = batches.dataset.as_numpy_iterator()
        assert not more
        found = np.rint(images * 255).astype(np.uint8)
        assert labels.tolist() == [label[image.tobytes()] for image in found]
    builder_labels = (data_dir / "fashion_mnist_local" / "1.0.0" / "label.labels.txt").read_text()
    assert builder_labels.split("\n")[:10] == list(CLASS_NAMES)


def test_the_audit_of_it(prepared: tuple[Path, tuple[np.ndarray, ...]]) -> None:
    data_dir, _ = prepared
    given = ["dataset=fashion_mnist_local", f"data_dir={data_dir}", "in_memory=false"]
    found = audit(find_subject("tfds", given), AuditOptions(workers=4), lambda count: None)
    assert found.sound
    assert sum(row.examples for row in rows_of(found)) == ROWS


def test_prepared_already(
    prepared: tuple[Path, tuple[np.ndarray, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir, _ = prepared
    assert run_prepare("fashion_mnist_local", None, data_dir) == 0
    said = capsys.readouterr().out
    assert "was prepared already" in said
    assert "validation: test" in said


def test_what_is_missing_or_damaged(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown data set .*fashion_mnist_local"):
        prepare("fashion", None, tmp_path)
    with pytest.raises(DataError, match="no such directory") as caught:
        prepare("fashion_mnist_local", tmp_path / "nothing", tmp_path / "data")
    assert "--from" in str(caught.value.hint)
    write_originals(tmp_path / "idx", train=5, test=5)
    images = tmp_path / "idx" / "t10k-images-idx3-ubyte.gz"
    images.write_bytes(images.read_bytes()[:-20])
    with pytest.raises(DataError, match="cannot be read"):
        prepare("fashion_mnist_local", tmp_path / "idx", tmp_path / "data")
    assert not list((tmp_path / "data").rglob("dataset_info.json"))


def test_the_config_of_the_full_set(
    prepared: tuple[Path, tuple[np.ndarray, ...]],
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data_dir, _ = prepared
    monkeypatch.setenv("TFDS_DATA_DIR", str(data_dir))
    subject: Subject = find_subject(str(repository / "configs" / "fashion_mnist_tfds.yaml"), [])
    data = subject.load()
    assert data.validation is not None
    assert data.train.rows == ROWS


def test_arguments() -> None:
    options = build_parser().parse_args(["data", "prepare", "fashion_mnist_local", "--from", "a"])
    assert (options.name, options.files, options.data_dir) == (
        "fashion_mnist_local",
        Path("a"),
        None,
    )
