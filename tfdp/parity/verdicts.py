"""From the records of several runs to verdicts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from tfdp.parity.compare import FLOOR, TOLERANCES, relative_difference
from tfdp.parity.report import FEATURES, Status, Verdict

ROUNDING_FACTOR = 8
"""A difference of N replicas may be so many times what one unit of rounding grows to."""

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Facts:
    """What is known about the model apart from numbers.

    Attributes:
      reasons: why it must differ, if so; see `tfdp.parity.definition`.
      stubborn: layers that cannot be made comparable.
      precision: name of the least precise type it computes in.
      names: paths of the variables by group.
    """

    reasons: tuple[str, ...] = ()
    stubborn: tuple[str, ...] = ()
    precision: str = "float32"
    names: Mapping[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Runs:
    """All that one number of replicas (or one device) has recorded.

    Attributes:
      as_is: the model as it was built.
      comparable: with BatchNormalization synchronised and random layers switched off.
      rounding: one device with its weights changed by one unit of rounding at the start.
      repeat: the same run a second time.
      draws: `(replicas, n)` random numbers that each replica drew.
    """

    as_is: Arrays
    comparable: Arrays | None = None
    rounding: Arrays | None = None
    repeat: Arrays | None = None
    draws: np.ndarray | None = None


@dataclass(frozen=True)
class _Gap:
    """The largest and the first difference that exceeds what is allowed (if any)."""

    largest: float = 0.0
    allowed: float = 0.0
    step: int | None = None
    where: str | None = None


def verdicts(
    one: Runs, many: Runs, replicas: int, facts: Facts, tolerance: float | None
) -> list[Verdict]:
    """Compares `replicas` replicas with one device, feature by feature.

    Args:
      one: what one device recorded.
      many: what the replicas recorded.
      replicas: how many.
      facts: about the model.
      tolerance: allowed difference relative to the size of a value; None is that of the model's
        precision, or more where a single unit of rounding grows to more.
    """
    found = []
    for feature in FEATURES:
        if not any(_values(feature, one.as_is, facts)):
            found.append(Verdict(replicas, feature, "not used"))
        elif feature == "random streams":
            found.append(_judge_streams(one, many, replicas, facts))
        else:
            found.append(_judge(feature, one, many, replicas, facts, tolerance))
    return found


def _judge(
    feature: str, one: Runs, many: Runs, replicas: int, facts: Facts, tolerance: float | None
) -> Verdict:
    rounding = one if tolerance is None else dataclasses.replace(one, rounding=None)
    base = TOLERANCES[facts.precision] if tolerance is None else tolerance
    allowance = _Allowance(feature, rounding, facts, base)

    def gap_of(a: Arrays, b: Arrays) -> _Gap:
        return _gap(feature, a, b, facts, allowance)

    gap = gap_of(one.as_is, many.as_is)
    status: Status = "equal" if gap.where is None else "differs"
    reason = ""
    if status == "differs" and facts.reasons and replicas > 1:
        by_definition = "; ".join(facts.reasons)
        comparable = _Gap()
        if one.comparable is not None and many.comparable is not None:
            comparable = gap_of(one.comparable, many.comparable)
        if facts.stubborn:
            status = "differs by definition"
            reason = f"{by_definition}; {', '.join(facts.stubborn)} cannot be switched off to see"
        elif comparable.where is None:
            status = "differs by definition"
            reason = f"{by_definition}. Equal without that"
        else:
            gap = comparable
            reason = "also with BatchNormalization synchronised and random layers switched off"
    return Verdict(replicas, feature, status, reason, gap.step, gap.where, gap.largest, gap.allowed)


def _judge_streams(one: Runs, many: Runs, replicas: int, facts: Facts) -> Verdict:
    """The states must count alike, and the draws must be the replicas' own."""
    feature = "random streams"
    gap = _gap(feature, one.as_is, many.as_is, facts, _Allowance(feature, Runs({}), facts, 0.0))
    problems = []
    if gap.where is not None:
        problems.append("the state of the stream is not that of one device")
    if many.draws is not None and one.draws is not None:
        if len(np.unique(many.draws, axis=0)) < len(many.draws):
            problems.append("some replicas draw the same numbers")
        if not np.array_equal(many.draws[0], one.draws[0]):
            problems.append("replica 0 does not draw what one device draws")
    if many.repeat is not None:
        different = [k for k in many.as_is if not _same_bits(many.as_is[k], many.repeat.get(k))]
        if different:
            problems.append(f"a second run with the same seed gave another {different[0]}")
    if problems:
        return Verdict(
            replicas, feature, "differs", "; ".join(problems), gap.step, gap.where, gap.largest
        )
    note = "" if replicas == 1 else "each replica draws its own, and the same in a second run"
    return Verdict(replicas, feature, "equal", note)


def _same_bits(a: np.ndarray, b: np.ndarray | None) -> bool:
    return b is not None and a.dtype == b.dtype and a.tobytes() == b.tobytes()


class _Allowance:
    """How much each value of a feature may differ.

    The base, or what one unit of rounding in the initial weights makes of that value. A bias in
    front of a normalisation has a gradient that is zero but for rounding, say, and Adam divides it
    by its own size: it may differ much, and the kernel beside it may not. A value that happens to
    react little gets what half of its feature's values get.
    """

    def __init__(self, feature: str, one: Runs, facts: Facts, base: float) -> None:
        self._base = base
        self._own: dict[str, np.ndarray] = {}
        if one.rounding is None:
            return
        start = one.as_is if one.comparable is None else one.comparable
        for _, key in _values(feature, start, facts):
            size = np.nan_to_num(_difference(key, start, one.rounding), posinf=0.0)
            self._own[key] = np.maximum.accumulate(size) if size.ndim else size

    def of(self, key: str) -> np.ndarray:
        """Allowed for this value: of each step where it has a trace, else one number."""
        own = self._own.get(key)
        if own is None:
            return np.asarray(self._base)
        alike = [size for size in self._own.values() if size.shape == own.shape]
        lower_half = np.sort(np.stack(alike), axis=0)[(len(alike) - 1) // 2]
        return np.maximum(self._base, ROUNDING_FACTOR * np.maximum(own, lower_half))


def _gap(feature: str, a: Arrays, b: Arrays, facts: Facts, allowance: _Allowance) -> _Gap:
    """Compares all values of a feature; the earliest step counts, then the largest difference."""
    largest = allowed = 0.0
    excess: list[tuple[float, float, str, int | None]] = []
    for name, key in _values(feature, a, facts):
        size, limit = _difference(key, a, b), allowance.of(key)
        beyond = ~(size <= _as_long_as(limit, size))
        if size.ndim == 0 or beyond.any():
            largest = max(largest, float(np.max(size, initial=0.0)))
        allowed = max(allowed, float(np.max(limit)))
        if size.ndim == 0 and beyond:
            excess.append((np.inf, -float(size), name, None))
        elif beyond.any():
            first = int(np.flatnonzero(beyond)[0])
            at = int(a["steps"][first]) if first < len(a["steps"]) else first + 1
            excess.append((first, -float(size[first]), name, at))
    if not excess:
        return _Gap(largest, allowed)
    _, _, where, step = min(excess, key=lambda found: found[:2])
    return _Gap(largest, allowed, step, where)


def _as_long_as(limit: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The limits of the steps, the last one going on where a run has more steps."""
    if limit.ndim == 0 or limit.shape == size.shape:
        return limit
    return np.pad(limit[: len(size)], (0, max(0, len(size) - len(limit))), mode="edge")


def _values(feature: str, arrays: Arrays, facts: Facts) -> Iterator[tuple[str, str]]:
    """`(name, key)` of every value that belongs to a feature."""
    if feature == "predictions":
        yield from ((f"output {k.split('/')[1]}", k) for k in arrays if k.startswith("predict/"))
    elif feature in ("losses", "metrics"):
        for key in arrays:
            kind, _, name = key.partition("/")
            if kind in ("log", "history", "evaluate") and _is_loss(name) == (feature == "losses"):
                yield name if kind != "evaluate" else f"{name} of evaluate", key
    else:
        names = facts.names.get(feature, [])
        if feature == "optimizer state" and len(names) <= len(_COUNTERS):
            return  # the counter and the learning rate alone are no state
        for i, name in enumerate(names):
            yield from ((name, f"{kind}/{feature}/{i}") for kind in ("trace", "final"))


_COUNTERS = ("iteration", "learning_rate")


def _is_loss(name: str) -> bool:
    return name.removeprefix("val_").endswith("loss")


def _difference(key: str, a: Arrays, b: Arrays) -> np.ndarray:
    """Relative: of each step where the value has a trace, else one number."""
    if key not in b:
        shape = a[key].shape[:1] if key.startswith(("trace/", "log/")) else ()
        return np.full(shape, np.inf)
    if key.startswith("log/"):
        return _stepwise(a[key], b[key], np.abs(a[key]))
    if key.startswith("trace/"):
        return _stepwise(a[key][:, 0], b[key][:, 0], a[key][:, 1])
    return np.asarray(relative_difference(a[key], b[key]))


def _stepwise(a: np.ndarray, b: np.ndarray, size: np.ndarray) -> np.ndarray:
    """|a - b| / size at each step; infinite from where one of the two has ended."""
    steps = max(len(a), len(b))
    result = np.full(steps, np.inf)
    both = min(len(a), len(b))
    with np.errstate(invalid="ignore"):
        difference = np.abs(a[:both] - b[:both]) / np.maximum(np.nan_to_num(size[:both]), FLOOR)
    same = (a[:both] == b[:both]) | (np.isnan(a[:both]) & np.isnan(b[:both]))
    result[:both] = np.where(same, 0.0, np.nan_to_num(difference, nan=np.inf))
    return result
