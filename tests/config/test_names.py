from __future__ import annotations

from tfdp.config.names import OPTIMIZERS


def test_the_optimizers_are_those_of_keras() -> None:
    import keras

    base = keras.optimizers.Optimizer
    # These two are made of other optimizers.
    wrappers = (base, keras.optimizers.LossScaleOptimizer, keras.optimizers.MultiOptimizer)
    found = [
        name.lower()
        for name, value in vars(keras.optimizers).items()
        if isinstance(value, type) and issubclass(value, base) and value not in wrappers
    ]
    assert sorted(found) == list(OPTIMIZERS)
