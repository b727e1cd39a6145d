"""The residual network: its size and arithmetic against closed forms."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from tfdp.models.resnet import resnet_small


def parameters(channels: int, classes: int, width: int, blocks: tuple[int, ...]) -> int:
    """Trainable parameters by hand: 3x3 convolutions without bias, two per norm and channel."""
    total = 9 * channels * width + 2 * width
    before = width
    for stage, count in enumerate(blocks):
        out = width * 2**stage
        for block in range(count):
            total += 9 * before * out + 9 * out * out + 2 * 2 * out
            if before != out or (block == 0 and stage > 0):
                total += before * out + 2 * out
            before = out
    return total + before * classes + classes


@pytest.mark.parametrize(
    ("channels", "classes", "width", "blocks"),
    [(1, 10, 16, (1, 1, 1)), (3, 7, 8, (2, 1)), (1, 2, 4, (1,))],
)
def test_number_of_parameters(
    channels: int, classes: int, width: int, blocks: tuple[int, ...]
) -> None:
    model = resnet_small((12, 12, channels), classes, width=width, blocks=blocks)
    trainable = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    assert trainable == parameters(channels, classes, width, blocks)
    assert model.output_shape == (None, classes)


def test_the_stem_may_halve_it_too() -> None:
    model = resnet_small((28, 28, 1), 10, stem_strides=2, blocks=(1,))
    assert model.get_layer("stage1_block1_add").output.shape[1:] == (14, 14, 16)


def test_every_stage_after_the_first_halves_the_resolution() -> None:
    model = resnet_small((28, 28, 1), 10, blocks=(1, 2, 1))
    shapes = [model.get_layer(f"stage{stage}_block1_add").output.shape[1:] for stage in (1, 2, 3)]
    assert shapes == [(28, 28, 16), (14, 14, 32), (7, 7, 64)]


def test_a_block_whose_branch_is_zero_passes_its_input() -> None:
    model = resnet_small((8, 8, 1), 3, width=4, blocks=(1,))
    model.get_layer("stage1_block1_norm2").gamma.assign(np.zeros(4))
    stem, out = model.get_layer("stem_relu").output, model.get_layer("stage1_block1_relu2").output
    both = keras.Model(model.input, [stem, out])
    before, after = both(np.random.default_rng(0).normal(size=(2, 8, 8, 1)))
    assert np.asarray(before).max() > 0
    np.testing.assert_array_equal(np.asarray(before), np.asarray(after))


def test_gives_probabilities() -> None:
    model = resnet_small((8, 8, 1), 5, width=2)
    rows = model(np.random.default_rng(0).normal(size=(6, 8, 8, 1))).numpy()
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-6)
    assert (rows >= 0).all()


@pytest.mark.parametrize("synchronized", [True, False])
def test_every_norm_takes_the_switch(synchronized: bool) -> None:
    model = resnet_small((8, 8, 1), 5, synchronized_batch_norm=synchronized)
    norms = [one for one in model.layers if isinstance(one, keras.layers.BatchNormalization)]
    assert len(norms) == 9
    assert {norm.synchronized for norm in norms} == {synchronized}


def test_dropout_is_there_if_asked_for() -> None:
    names = [layer.name for layer in resnet_small((8, 8, 1), 5, dropout=0.5).layers]
    assert "dropout" in names
    assert "dropout" not in [layer.name for layer in resnet_small((8, 8, 1), 5).layers]


def test_probabilities_are_float32_under_mixed_precision() -> None:
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = resnet_small((8, 8, 1), 5)
    finally:
        keras.config.set_dtype_policy("float32")
    assert model.get_layer("stem").compute_dtype == "bfloat16"
    assert model(np.zeros((1, 8, 8, 1))).dtype == "float32"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"input_shape": (8, 8)}, r"input_shape is \(8, 8\)"),
        ({"input_shape": (8, 0, 1)}, "all positive"),
        ({"classes": 1}, "classes is 1"),
        ({"width": 0}, "width is 0"),
        ({"blocks": ()}, r"blocks is \(\)"),
        ({"blocks": (1, 0)}, r"blocks is \(1, 0\)"),
        ({"dropout": 1.0}, "dropout is 1.0"),
    ],
)
def test_refuses(arguments: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"input_shape": (8, 8, 1), "classes": 3}
    with pytest.raises(ValueError, match=message):
        resnet_small(**(usual | arguments))
