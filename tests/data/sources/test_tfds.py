"""A data set of tensorflow-datasets, prepared here from arrays, loaded by name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.sources.written import open_source, picture
from tfdp.data.arrays import Arrays
from tfdp.data.batches import EpochBatches
from tfdp.data.failures import data_errors
from tfdp.data.sources.tfds import TfdsSource
from tfdp.errors import DataError

ROWS = 23


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `levels`: 23 training examples in 3 files, and 5 test examples."""
    import tensorflow_datasets as tfds

    class Levels(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.2.0")

        def _info(self) -> Any:
            features = tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(2, 3, 1)),
                    "label": tfds.features.ClassLabel(num_classes=30),
                    "level": np.float32,
                }
            )
            return self.dataset_info_from_configs(
                features=features, supervised_keys=("image", "label")
            )

        def _split_generators(self, dl_manager: Any) -> Any:
            return {"train": self._generate_examples(ROWS), "test": self._generate_examples(5)}

        def _generate_examples(self, rows: int = 0) -> Iterator[Any]:
            for i in range(rows):
                yield i, {"image": picture(i), "label": i, "level": i / 2}

    folder = tmp_path_factory.mktemp("tfds")
    tfds.disable_progress_bar()
    config = tfds.download.DownloadConfig(num_shards=3)
    Levels(data_dir=str(folder)).download_and_prepare(download_config=config)
    return folder


def load(folder: Path, on_error: str = "fail", **options: Any) -> Any:
    return open_source("tfds", folder, on_error, dataset="levels", data_dir=".", **options)


def elements(source: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    batches = EpochBatches(source, global_batch=5, **options)
    with data_errors(batches.source):
        parts = list(batches.dataset.as_numpy_iterator())
    x, y = zip(*parts, strict=True)
    return np.concatenate(x), np.concatenate(y)


@pytest.mark.parametrize("in_memory", [None, False])
def test_every_example_comes_once(prepared: Path, in_memory: bool | None) -> None:
    source = load(prepared, in_memory=in_memory)
    assert isinstance(source, Arrays if in_memory is None else TfdsSource)
    assert source.rows == ROWS
    x, y = elements(source)
    assert sorted(y) == list(range(ROWS)) != y.tolist()
    np.testing.assert_allclose(x[:, 1, 2, 0] * 255, y, rtol=1e-6)


def test_a_stream_knows_its_files_and_length(prepared: Path) -> None:
    source = load(prepared, in_memory=False)
    assert len(source.files) == 3
    assert source.classes == 30
    assert EpochBatches(source, global_batch=5).steps == 5
    batches = EpochBatches(source, global_batch=5)
    batches.set_position(1, 0)
    whole = [y.tolist() for _, y in batches.dataset.as_numpy_iterator()]
    batches.set_position(1, 3)
    workload = batches.dataset.tfdp_workload
    pieces = [y.tolist() for w in (0, 1) for _, y in workload.share(w, 2, 1).as_numpy_iterator()]
    assert [pieces[0] + pieces[2], pieces[1] + pieces[3]] == whole[3:]


def test_slices_and_features_by_name(prepared: Path) -> None:
    source = load(prepared, split="train[:40%]", inputs=["level"], target="level", in_memory=False)
    x, y = elements(source, shuffle=False)
    rest = elements(
        load(prepared, split="train[40%:]", inputs=["level"], target="level"), shuffle=False
    )[0]
    assert x.tolist() == y.tolist()
    assert sorted([*x, *rest]) == [i / 2 for i in range(ROWS)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"dataset": "mnist"},
            r"'mnist' has not been prepared in .*\n.*tfdp never downloads.*tfds",
        ),
        ({"dataset": "levels:9.9.9"}, "has not been prepared"),
        ({"split": "tain"}, "there is no such split .*known: test, train"),
        ({"inputs": ["picture"]}, 'unknown column "picture"'),
    ],
)
def test_refuses_at_once(prepared: Path, options: dict[str, Any], message: str) -> None:
    started = time.monotonic()
    with pytest.raises(DataError, match=message):
        open_source("tfds", prepared, **{"dataset": "levels", "data_dir": ".", **options})
    assert time.monotonic() - started < 10


def test_a_damaged_or_missing_file(prepared: Path) -> None:
    source = load(prepared, in_memory=False)
    path = Path(source.files[1])
    content = path.read_bytes()
    try:
        path.write_bytes(content[:-5])
        with pytest.raises(DataError, match=f"{path.name}: the file ends at byte"):
            load(prepared)
        with pytest.raises(DataError, match=f"{path.name}: the file ends at byte"):
            elements(source)
        assert load(prepared, "skip").rows == ROWS - 1
        path.unlink()
        with pytest.raises(DataError, match=f"{path.name}: there is no such file; prepare"):
            load(prepared)
    finally:
        path.write_bytes(content)
