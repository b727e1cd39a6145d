"""An audit as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from tfdp.data.tools.audit import Audit
from tfdp.data.tools.collect import Share
from tfdp.data.tools.judge import Verdict

FORMAT_VERSION = 1

_MOST_REPLICAS = 32
"""More than this many are shown by the extremes alone; JSON has them all."""


@dataclass(frozen=True)
class Row:
    """A replica's epochs together."""

    worker: int
    replica: int
    examples: int
    batches: int
    empty: int
    padding: int
    smallest: int
    largest: int


def rows_of(audit: Audit) -> list[Row]:
    """One row for every replica, all epochs together."""
    by_replica: dict[tuple[int, int], list[Share]] = {}
    for share in audit.shares:
        by_replica.setdefault((share.worker, share.replica), []).append(share)
    return [_row(*key, shares) for key, shares in sorted(by_replica.items())]


def table_of(audit: Audit) -> Table:
    """What each replica gets."""
    rows = rows_of(audit)
    epochs = audit.options.epochs
    title = f"{audit.options.workers} x {audit.options.replicas} replicas, "
    table = Table(title=title + ("1 epoch" if epochs == 1 else f"{epochs} epochs together"))
    for heading in ("worker", "replica", "examples", "batches", "batch sizes", "empty", "padding"):
        table.add_column(heading, justify="right", no_wrap=True)
    shown = rows
    if len(rows) > _MOST_REPLICAS:
        shown = sorted({min(rows, key=_examples), max(rows, key=_examples)}, key=_examples)
    for row in shown:
        table.add_row(
            f"{row.worker}",
            f"{row.replica}",
            f"{row.examples:,}",
            f"{row.batches:,}",
            f"{row.smallest}"
            if row.smallest == row.largest
            else f"{row.smallest} to {row.largest}",
            f"{row.empty or ''}",
            f"{row.padding or ''}",
        )
    if shown is not rows:
        table.caption = f"the least and the most of {len(rows)} replicas; --json lists all"
    return table


def lines_of(audit: Audit) -> Iterator[str]:
    """Everything else, in sentences."""
    yield f"policy: {audit.policy}"
    told = {
        "place": "by row, or by file and place in it",
        "content": "by content: equal ones count as the same example",
    }
    yield f"examples: {audit.examples:,}, told apart {told[audit.by]}"
    yield from _notes(audit)
    several = len(audit.verdicts) > 1
    for number, verdict in enumerate(audit.verdicts, 1):
        yield f"{f'epoch {number}: ' if several else ''}{describe(verdict)}"
    for file in audit.unread[:_MOST_REPLICAS]:
        yield f"LOST: no worker of {audit.options.workers} reads {file}"
    yield "every example comes once" if _once(audit) else _conclusion(audit)


def describe(verdict: Verdict) -> str:
    """A verdict in words."""
    parts = [
        f"{'LOST' if verdict.lost else 'lost'}: {verdict.lost:,}",
        f"{'DOUBLED' if verdict.doubled else 'doubled'}: {verdict.doubled:,}",
    ]
    if verdict.unknown:
        parts.append(f"UNKNOWN (one process alone does not read them): {verdict.unknown:,}")
    if verdict.dropped:
        parts.append(f"left out on purpose (data.remainder: drop): {verdict.dropped:,}")
    return ", ".join(parts)


def to_json(audit: Audit) -> str:
    """Everything, as JSON."""
    options = audit.options
    return json.dumps(
        {
            "version": FORMAT_VERSION,
            "sound": audit.sound,
            "part": options.part,
            "workers": options.workers,
            "replicas_per_worker": options.replicas,
            "epochs": options.epochs,
            "policy": {"name": audit.policy.name, "reason": audit.policy.reason},
            "told_apart_by": audit.by,
            "remainder": audit.remainder,
            "steps_per_epoch": audit.steps,
            "examples": audit.examples,
            "verdicts": [_verdict(each) for each in audit.verdicts],
            "unread_files": list(audit.unread),
            "shares": [_share(each) for each in audit.shares],
        },
        indent=2,
    )


def _notes(audit: Audit) -> Iterator[str]:
    workers: dict[int, int] = {}
    for share in audit.shares:
        workers[share.worker] = workers.get(share.worker, 0) + len(share.ids)
    least, most = min(workers.values()), max(workers.values())
    if audit.policy.own and least != most:
        yield (
            f"uneven shards: a worker has {least:,} to {most:,} examples; those that end early "
            "wait for the others with empty batches, and every example still weighs the same"
        )
    empty = sum(int((share.sizes == 0).sum()) for share in audit.shares)
    if empty:
        yield f"empty batches: {empty:,}; they count nothing"
    if audit.steps is not None:
        yield (
            f"training.steps_per_epoch is {audit.steps}: epochs are parts of endless sweeps, "
            "which are judged together"
        )


def _once(audit: Audit) -> bool:
    dropped = any(verdict.dropped for verdict in audit.verdicts)
    return audit.sound and not dropped and audit.steps is None


def _conclusion(audit: Audit) -> str:
    if audit.sound:
        return "no example is lost or doubled but as the config asks"
    return "examples are lost or doubled"


def _row(worker: int, replica: int, shares: list[Share]) -> Row:
    sizes = np.concatenate([share.sizes for share in shares])
    return Row(
        worker=worker,
        replica=replica,
        examples=sum(len(share.ids) for share in shares),
        batches=len(sizes),
        empty=int((sizes == 0).sum()),
        padding=sum(share.padding for share in shares),
        smallest=int(sizes.min(initial=2**31)) if len(sizes) else 0,
        largest=int(sizes.max(initial=0)),
    )


def _examples(row: Row) -> int:
    return row.examples


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "lost": verdict.lost,
        "doubled": verdict.doubled,
        "unknown": verdict.unknown,
        "dropped_on_purpose": verdict.dropped,
        "identities": verdict.examples,
    }


def _share(share: Share) -> dict[str, Any]:
    return {
        "worker": share.worker,
        "replica": share.replica,
        "epoch": share.epoch,
        "examples": len(share.ids),
        "batches": len(share.sizes),
        "empty_batches": int((share.sizes == 0).sum()),
        "smallest_batch": int(share.sizes.min()) if len(share.sizes) else 0,
        "largest_batch": int(share.sizes.max()) if len(share.sizes) else 0,
        "padding": share.padding,
    }
