"""Reducers by name. Register your own with `register`."""

from __future__ import annotations

import difflib

from tfdp.collectives.base import Reducer, Topology
from tfdp.collectives.hierarchical_copy import HierarchicalCopy
from tfdp.collectives.mpi import Mpi
from tfdp.collectives.nccl import Nccl
from tfdp.collectives.reduce_to_one import ReduceToOne
from tfdp.collectives.ring import Ring
from tfdp.collectives.two_level import TwoLevel
from tfdp.errors import StrategyError

AUTO = "auto"
_REDUCERS: dict[str, Reducer] = {}


def register(reducer: Reducer) -> None:
    """Makes a reducer available as `cross_device_ops=reducer.name`.

    Raises:
        StrategyError: the name is "auto", or another reducer has it.
    """
    if reducer.name == AUTO or reducer.name in _REDUCERS:
        raise StrategyError(
            f"a reducer cannot be registered as {reducer.name!r}: the name is taken. "
            f"Names in use: {AUTO}, {', '.join(_REDUCERS)}."
        )
    _REDUCERS[reducer.name] = reducer


def names() -> tuple[str, ...]:
    """All names that `cross_device_ops` accepts, "auto" first."""
    return (AUTO, *_REDUCERS)


def get(name: str) -> Reducer:
    """The reducer of that name.

    Raises:
        StrategyError: there is none.
    """
    reducer = _REDUCERS.get(name)
    if reducer is None:
        near = difflib.get_close_matches(str(name), names(), n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise StrategyError(
            f"cross_device_ops={name!r} is not known.{meant} Known: {', '.join(names())}."
        )
    return reducer


def resolve(name: str, topology: Topology, between: str = AUTO) -> tuple[Reducer, str]:
    """The reducer of that name, and why it was taken.

    Args:
        name: one of `names`.
        topology: what it has to serve.
        between: for "two_level", see there.

    Raises:
        StrategyError: no such name, or the reducer cannot serve these devices.
    """
    if between != AUTO and name != TwoLevel.name:
        raise StrategyError(
            f"between={between!r} is a choice of {TwoLevel.name!r}, and cross_device_ops={name!r}.",
            hint=f'Use cross_device_ops="{TwoLevel.name}", or leave between out.',
        )
    if name == AUTO:
        return choose(topology)
    reducer = get(name) if between == AUTO else TwoLevel(between)
    reason = reducer.refusal(topology)
    if reason:
        others = ", ".join(each.name for each in candidates(topology))
        raise StrategyError(
            f"cross_device_ops={name!r} cannot serve {topology.describe()}: {reason}. "
            f"Use one of: {AUTO}, {others}."
        )
    return reducer, "asked for by name"


def candidates(topology: Topology) -> list[Reducer]:
    """All reducers that can serve the topology."""
    return [each for each in _REDUCERS.values() if each.refusal(topology) is None]


def choose(topology: Topology) -> tuple[Reducer, str]:
    """The choice of "auto" and its reason, one sentence."""
    nccl = _REDUCERS[Nccl.name]
    if nccl.refusal(topology) is None:
        return nccl, "every replica has a physical GPU of its own"
    if topology.workers > 1:
        return _REDUCERS[Ring.name], f"{topology.workers} workers without a GPU for each replica"
    return (
        _REDUCERS[ReduceToOne.name],
        f"the {topology.device_type} replicas of one process share their memory",
    )


for _reducer in (Nccl(), HierarchicalCopy(), ReduceToOne(), Ring(), TwoLevel(), Mpi()):
    register(_reducer)
