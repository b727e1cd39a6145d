"""What is wrong with a group, given what its workers have said. No sockets here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tfdp.cluster.rendezvous.messages import Hello


def disagreements(hellos: Iterable[Hello]) -> list[str]:
    """One sentence for each thing in which the workers differ, the same on every worker."""
    everyone = sorted(hellos, key=lambda hello: (hello.index, hello.nonce))
    problems = _duplicates(everyone)
    lists = _groups(everyone, lambda hello: ", ".join(hello.workers))
    if len(lists) > 1:
        problems.append(f"the workers have different lists of workers: {_told(lists)}")
    names = sorted({name for hello in everyone for name in hello.facts})
    for name in names:
        values = _groups(everyone, lambda hello, name=name: hello.facts.get(name, "not set"))  # type: ignore[misc]
        if len(values) > 1:
            problems.append(f"the workers differ in {name}: {_told(values)}")
    return problems


def excluded(hellos: Iterable[Hello]) -> frozenset[str]:
    """Addresses that some worker has in its list, and another one has not."""
    lists = [frozenset(hello.workers) for hello in hellos]
    return frozenset[str]().union(*lists) - lists[0].intersection(*lists)


def duplicate(index: int) -> str:
    """The sentence for two processes that both are the worker with this index."""
    return f"two workers have the index {index}: each must have its own"


def _duplicates(hellos: list[Hello]) -> list[str]:
    nonces: dict[int, set[str]] = {}
    for hello in hellos:
        nonces.setdefault(hello.index, set()).add(hello.nonce)
    return [duplicate(index) for index, found in sorted(nonces.items()) if len(found) > 1]


def _groups(hellos: list[Hello], value: Callable[[Hello], str]) -> Mapping[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for hello in hellos:
        members = groups.setdefault(value(hello), [])
        if hello.index not in members:
            members.append(hello.index)
    return groups


def _told(groups: Mapping[str, list[int]]) -> str:
    return "; ".join(f"{value} on {_workers(members)}" for value, members in groups.items())


def _workers(indexes: list[int]) -> str:
    noun = "worker" if len(indexes) == 1 else "workers"
    shown = ", ".join(str(index) for index in indexes[:8])
    return f"{noun} {shown}{' and more' if len(indexes) > 8 else ''}"
