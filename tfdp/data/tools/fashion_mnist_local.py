"""A TFDS builder over the four original files of Fashion-MNIST, wherever they lie; no network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from tfdp.data.images import CLASS_NAMES, fashion_mnist


class FashionMnistLocal(tfds.core.GeneratorBasedBuilder):
    """Fashion-MNIST: 60,000 training and 10,000 test images of clothes, 28x28 grey levels."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES: ClassVar = {"1.0.0": "Read from the original files."}
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "A folder with train-images-idx3-ubyte, train-labels-idx1-ubyte and the same of t10k, "
        "gzipped or not, as in the Debian package dataset-fashion-mnist."
    )

    def _info(self) -> Any:
        return self.dataset_info_from_configs(
            description=self.__doc__,
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(28, 28, 1), encoding_format="png"),
                    "label": tfds.features.ClassLabel(names=list(CLASS_NAMES)),
                }
            ),
            supervised_keys=("image", "label"),
            homepage="https://github.com/zalandoresearch/fashion-mnist",
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        (x_train, y_train), (x_test, y_test) = fashion_mnist(Path(dl_manager.manual_dir))
        return {
            "train": self._generate_examples(x_train, y_train),
            "test": self._generate_examples(x_test, y_test),
        }

    def _generate_examples(self, images: Any, labels: Any) -> Iterator[tuple[int, dict[str, Any]]]:
        for row, (image, label) in enumerate(zip(images, labels, strict=True)):
            yield row, {"image": image[:, :, None], "label": int(label)}
