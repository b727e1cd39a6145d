"""From the records of several runs to verdicts."""

from __future__ import annotations

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
    growth = _growth(feature, one, facts)
    base = TOLERANCES[facts.precision] if tolerance is None else tolerance

    def gap_of(a: Arrays, b: Arrays) -> _Gap:
        return _gap(feature, a, b, facts, base, growth if tolerance is None else _NO_GROWTH)

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
    gap = _gap(feature, one.as_is, many.as_is, facts, 0.0, _NO_GROWTH)
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


@dataclass(frozen=True)
class _Growth:
    """What one unit of rounding has grown to: after each step, and in the end."""

    steps: np.ndarray
    end: float


_NO_GROWTH = _Growth(np.zeros(1), 0.0)


def _growth(feature: str, one: Runs, facts: Facts) -> _Growth:
    if one.rounding is None:
        return _NO_GROWTH
    base = one.as_is if one.comparable is None else one.comparable
    steps, end = np.zeros(1), 0.0
    for name, key in _values(feature, base, facts):
        del name
        size = _difference(key, base, one.rounding)
        if key.startswith(("trace/", "log/")):
            steps = np.maximum(steps, np.nan_to_num(size, posinf=0.0))
        else:
            end = max(end, float(np.nan_to_num(size, posinf=0.0)))
    steps = ROUNDING_FACTOR * np.maximum.accumulate(steps)
    return _Growth(steps, max(ROUNDING_FACTOR * end, float(steps[-1])))


def _gap(feature: str, a: Arrays, b: Arrays, facts: Facts, base: float, growth: _Growth) -> _Gap:
    """Compares all values of a feature; the earliest step counts, then the largest difference."""
    largest = 0.0
    excess: list[tuple[float, float, str, int | None]] = []
    allowed_end = max(base, growth.end)
    for name, key in _values(feature, a, facts):
        size = _difference(key, a, b)
        if not key.startswith(("trace/", "log/")):
            largest = max(largest, float(size))
            if not size <= allowed_end:
                excess.append((np.inf, -float(size), name, None))
            continue
        beyond = np.flatnonzero(~(size <= np.maximum(base, growth.steps)))
        if len(beyond):
            first = int(beyond[0])
            step = int(a["steps"][first]) if first < len(a["steps"]) else None
            excess.append((first, -float(size[first]), name, step))
            largest = max(largest, float(np.max(size)))
    if not excess:
        return _Gap(largest, allowed_end)
    _, _, where, step = min(excess, key=lambda found: found[:2])
    return _Gap(largest, allowed_end, step, where)


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
