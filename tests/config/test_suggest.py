from __future__ import annotations

import pytest

from tfdp.config.suggest import nearest, unknown


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("epoch", "epochs"),
        ("EPOCHS", "epochs"),
        ("global-batch", "global_batch"),
        ("batch_global", None),
        ("batch", "global_batch"),
        ("a", None),
        ("", None),
        ("zzz", None),
    ],
)
def test_nearest(name: str, expected: str | None) -> None:
    assert nearest(name, ["epochs", "global_batch", "seed"]) == expected


def test_unknown_lists_the_known_names() -> None:
    assert unknown("epoch", ["epochs", "seed"], what="key") == (
        'unknown key "epoch"; did you mean "epochs"? (known: epochs, seed)'
    )
    assert unknown("zzz", ["epochs"], what="key") == 'unknown key "zzz" (known: epochs)'
    assert unknown("zzz", [], what="key") == 'unknown key "zzz"'
