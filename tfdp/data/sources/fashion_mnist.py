"""Fashion-MNIST: the subset that ships with tfdp, or the full set from its original files."""

from __future__ import annotations

from dataclasses import dataclass

from tfdp.config.checks import a_path
from tfdp.config.section import Section, setting
from tfdp.data.arrays import Arrays, check_images
from tfdp.data.examples import TrainingData
from tfdp.data.images import fashion_mnist
from tfdp.data.sources.registry import Context, Format


@dataclass(frozen=True, kw_only=True)
class FashionMnistOptions(Section):
    """Which Fashion-MNIST."""

    directory: str | None = setting(
        "Folder with the four original files; null: the bundled subset of 20,000 images.",
        a_path,
        default=None,
    )


def load(options: FashionMnistOptions, context: Context) -> TrainingData:
    """Training images, and the test images for validation."""
    directory = None
    if options.directory is not None:
        directory = context.directory / options.directory
    (x_train, y_train), (x_test, y_test) = fashion_mnist(directory)
    check_images(x_train, "training data")
    check_images(x_test, "validation data")
    return TrainingData(Arrays(x_train, y_train), Arrays(x_test, y_test, place="validation data"))


FORMAT = Format("fashion_mnist", FashionMnistOptions, load)
