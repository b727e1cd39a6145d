"""How far callbacks think that a run has come."""

from __future__ import annotations

import json

from tfdp.training.position import PositionCallback, name_replicas


def told(position: PositionCallback, epoch: int, batches: list[int], *, end: bool) -> None:
    """What Keras tells a callback in an epoch."""
    position.on_epoch_begin(epoch)
    for batch in batches:
        position.on_train_batch_end(batch)
    if end:
        position.on_epoch_end(epoch)


def test_steps_are_counted_over_epochs() -> None:
    position = PositionCallback()
    position.set_params({"steps": None})
    told(position, 0, [0, 1, 2], end=True)
    told(position, 1, [0, 1], end=False)
    assert position.place == "step 5 (epoch 2, step 2)"


def test_the_last_call_of_several_steps_is_not_counted_in_full() -> None:
    position = PositionCallback()
    position.set_params({"steps": 5})
    told(position, 0, [1, 3, 5], end=True)
    assert position.place == "step 5 (epoch 1, step 5)"


def test_a_run_that_goes_on_in_an_epoch() -> None:
    """The batches of the resumed epoch keep their numbers."""
    first = PositionCallback()
    first.set_params({"steps": 4})
    told(first, 0, [0, 1, 2, 3], end=True)
    told(first, 1, [0, 1], end=False)
    for second in (PositionCallback(), PositionCallback(finished_steps=6)):
        second.set_params({"steps": 4})
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        told(second, 1, [2], end=False)
        assert second.place == "step 7 (epoch 2, step 3)"
    third = PositionCallback(finished_steps=6, finished_steps_in_epoch=2)
    third.set_params({"steps": 4})
    told(third, 1, [2, 3], end=True)
    told(third, 2, [0], end=False)
    assert third.place == "step 9 (epoch 3, step 1)"


def test_a_run_that_goes_on_between_epochs() -> None:
    first, second = PositionCallback(), PositionCallback()
    first.set_params({"steps": 2})
    second.set_params({"steps": 2})
    told(first, 0, [0, 1], end=True)
    second.load_state_dict(first.state_dict())
    told(second, 1, [0], end=False)
    assert second.place == "step 3 (epoch 2, step 1)"


def test_replicas_are_named_with_their_worker() -> None:
    assert name_replicas([2], 4, 4) == "replica 2"
    assert name_replicas([3, 4], 2, 6) == "replicas 3 (worker 1), 4 (worker 2)"
