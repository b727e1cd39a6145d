"""Numbers of rows: what divides and what does not."""

from __future__ import annotations

from typing import Any

import keras

from tests.parity.cases.base import EVERYWHERE, UP_TO_EIGHT, add, simple


def _adam() -> dict[str, Any]:
    return {"optimizer": keras.optimizers.Adam(0.01, weight_decay=0.01), "loss": "mse"}


_ROWS_AND_BATCH = {
    "even": (48, 24),
    "last_batch_of_1": (25, 24),
    "last_batch_of_5": (29, 24),
    "first_batch_uneven": (26, 13),
    "fewer_rows_than_replicas": (5, 2),
    "one_row": (1, 8),
}
for _name, (_rows, _batch) in _ROWS_AND_BATCH.items():
    add(f"size_{_name}", simple(_rows, _batch, _adam), **(EVERYWHERE | UP_TO_EIGHT))
