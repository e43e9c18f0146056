"""The ready-made handler: it records dead letters, and its return is the evidence for their ack."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from craig_mq.audit.row import AuditRow
from craig_mq.audit.store import AuditStore
from craig_mq.core.dead_letter import DeadLetter


def record(store: AuditStore) -> Callable[[DeadLetter], Awaitable[None]]:
    """A handler for ``subscribe_dlq`` that returns only once the audit row is committed.

    It raises ``DlqError`` with the disposition ADR-059 gives the failure; a phantom and a divergent
    row are successes, since both leave the occurrence visible. Cancelled: as ``AuditStore.record``.
    """

    async def handler(dead_letter: DeadLetter) -> None:
        await store.record(row_of(dead_letter))

    return handler


def row_of(dead_letter: DeadLetter) -> AuditRow:
    """What the ledger keeps of ``dead_letter``."""
    envelope = dead_letter.envelope
    return AuditRow(
        token=dead_letter.token,
        envelope_id=envelope.id,
        source_service=envelope.source_service,
        event_type=envelope.event_type,
        occurred_at=_instant(envelope.occurred_at),
        queue=dead_letter.queue,
        body=dead_letter.body,
        reason=None if dead_letter.death is None else dead_letter.death.reason,
        park_count=dead_letter.park_count,
    )


def _instant(text: str) -> datetime:
    """``text``, an RFC 3339 instant, cut to the microsecond in UTC.

    The few instants whose offset leads out of the calendar are clamped.
    """
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except OverflowError:
        edge = datetime.min if text.startswith("0001") else datetime.max  # noqa: DTZ901 - made aware below
        return edge.replace(tzinfo=UTC)
