"""Listing and grouping what lies in a queue, without bodies."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs

from craig_mq.core.delivery import Delivery
from craig_mq.operator.lease import MAX_SCAN, Lease, lease_queue
from craig_mq.operator.row import Row, read_row
from craig_mq.operator.where import Condition, selects
from craig_mq.transport.broker import Broker

_NUMBERS: Final = re.compile(r"\d+")
_FINGERPRINT_CHARACTERS: Final = 12


@attrs.define(frozen=True, slots=True)
class Scan:
    """``rows`` are those selected, head first. ``complete`` is False where not everything was seen."""

    queue: str
    depth: int
    seen: int
    complete: bool
    rows: tuple[Row, ...]


@attrs.define(frozen=True, slots=True)
class Group:
    """Rows of one reason and one kind of error; ``example`` is the key of the oldest."""

    reason: str
    fingerprint: str
    error: str
    rows: int
    bytes: int
    oldest_at: str | None
    newest_at: str | None
    example: str


def ignore_progress(done: int, total: int) -> None:
    """Tell nobody."""
    del done, total


async def scan_queue(
    broker: Broker,
    queue: str,
    where: Sequence[Condition] = (),
    *,
    now_s: float,
    limit: int = MAX_SCAN,
    accept_delivery_count: bool = False,
    patience_s: float = 0.0,
    on_progress: Callable[[int, int], None] = ignore_progress,
) -> Scan:
    """Lease the queue, read up to ``limit`` messages, hand all back, and return the selected rows.

    Holds capture fields and digests, never bodies. Raises as ``lease_queue``. Cancelled: everything
    is handed back.
    """
    async with lease_queue(
        broker,
        queue,
        limit=limit,
        accept_delivery_count=accept_delivery_count,
        patience_s=patience_s,
    ) as lease:
        return await scan_lease(lease, where, now_s=now_s, on_progress=on_progress)


async def scan_lease(
    lease: Lease,
    where: Sequence[Condition] = (),
    *,
    now_s: float,
    on_progress: Callable[[int, int], None] = ignore_progress,
) -> Scan:
    """Read what a lease gives, and keep holding it; return the selected rows. Raises ClosedError."""
    rows: list[Row] = []
    while (delivery := await lease.receive()) is not None:
        row = read_row(delivery, lease.received - 1)
        if selects(where, row, now_s):
            rows.append(row)
        on_progress(lease.received, min(lease.depth, lease.limit))
    return Scan(lease.queue, lease.depth, lease.received, lease.complete, tuple(rows))


async def find_message(
    broker: Broker, queue: str, key: str, *, limit: int = MAX_SCAN, accept_delivery_count: bool = False
) -> tuple[Row, Delivery] | None:
    """The first message whose key begins with ``key``, and its row; None if there is none."""
    async with lease_queue(broker, queue, limit=limit, accept_delivery_count=accept_delivery_count) as lease:
        while (delivery := await lease.receive()) is not None:
            row = read_row(delivery, lease.received - 1)
            if row.key.startswith(key) or key in {row.envelope_id, row.token}:
                return row, delivery
    return None


def group_rows(rows: Iterable[Row]) -> tuple[Group, ...]:
    """Group by reason and error, most frequent first, as an exception list does."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.reason, fingerprint(row)), []).append(row)
    groups = [_group(reason, mark, members) for (reason, mark), members in found.items()]
    return tuple(sorted(groups, key=lambda group: (-group.rows, group.reason, group.fingerprint)))


def count_by(rows: Iterable[Row], field: Callable[[Row], str | None]) -> dict[str, int]:
    """How many rows have each value of ``field``, most frequent first."""
    return dict(Counter(field(row) or "-" for row in rows).most_common())


def fingerprint(row: Row) -> str:
    """What makes two errors the same kind: class and first line, numbers taken out."""
    text = f"{row.error_type or ''}\n{_NUMBERS.sub('#', row.error_line or row.fault or '')}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_FINGERPRINT_CHARACTERS]


def _group(reason: str, mark: str, members: Sequence[Row]) -> Group:
    dated = sorted((row for row in members if row.at_s is not None), key=lambda row: row.at_s or 0.0)
    oldest = dated[0] if dated else members[0]
    words = oldest.error_line or oldest.fault or "-"
    return Group(
        reason=reason,
        fingerprint=mark,
        error=f"{oldest.error_type}: {words}" if oldest.error_type else words,
        rows=len(members),
        bytes=sum(row.size for row in members),
        oldest_at=oldest.at,
        newest_at=dated[-1].at if dated else None,
        example=oldest.key,
    )
