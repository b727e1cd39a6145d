"""BatchNormalization: synchronised by one switch; finite and alike on all replicas without it."""

from __future__ import annotations

import keras
import numpy as np

import tfdp


def bn_model(**arguments: object) -> keras.Model:
    inner = keras.Sequential([keras.Input((3,)), keras.layers.BatchNormalization(**arguments)])
    return keras.Sequential([keras.Input((3,)), inner, keras.layers.Dense(1)])


def test_the_switch_reaches_layers_inside_layers() -> None:
    model = bn_model()
    assert tfdp.synchronize_batch_norm(model) is model
    assert model.layers[0].layers[0].synchronized


def test_an_empty_replica_leaves_unsynchronised_statistics_finite_and_equal() -> None:
    strategy = tfdp.strategy("mirrored", devices=4)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(10, 3)), rng.normal(size=(10, 1))
    with strategy.scope():
        model = bn_model(momentum=0.5)
        model.compile("sgd", "mse")
    model.fit(
        x, y, batch_size=8, epochs=2, verbose=0
    )  # the last batch of 2 leaves two without rows
    for variable in model.variables:
        copies = [copy.numpy() for copy in variable.value.values]
        assert np.isfinite(copies[0]).all(), variable.path
        for copy in copies[1:]:
            np.testing.assert_array_equal(copy, copies[0], err_msg=variable.path)


def test_unsynchronised_moving_mean_is_the_row_weighted_mean_of_the_replicas() -> None:
    """Means of 3, 2 and 2 rows, weighted 3 : 2 : 2, are the mean of all seven."""
    strategy = tfdp.strategy("mirrored", devices=3)
    x = np.arange(21.0).reshape(7, 3) ** 2
    with strategy.scope():
        model = bn_model(momentum=0.0)
        model.compile("sgd", "mse")
    model.fit(x, x[:, :1], batch_size=7, verbose=0, shuffle=False)
    moving_mean = model.layers[0].layers[0].moving_mean.numpy()
    np.testing.assert_allclose(moving_mean, x.mean(axis=0), rtol=1e-6)
