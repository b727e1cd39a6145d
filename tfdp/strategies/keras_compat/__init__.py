"""The room for everything private that tfdp needs of Keras and TensorFlow.

`install` puts shims into Keras. Each is a function that first asks whether the calling code runs
under a tfdp strategy with two replicas or more, and otherwise does exactly what Keras does, so
stock strategies in the same process keep their behaviour. (One acts on the whole process and
changes no number: `iterators` ends idle threads of TensorFlow's per-device iterators at once.)
`versions.check` compares what is installed with what these shims were written and tested for.

Each shim has a test in `tests/strategies/test_upstream.py` that fails when upstream no longer
needs it.
"""

from __future__ import annotations

from tfdp.strategies.keras_compat.install import install

__all__ = ["install"]
