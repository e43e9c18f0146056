"""The rows of one group as links of a hash chain, in the plain columns that both stores take. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from craig_mq.audit.chain import Link, digest
from craig_mq.audit.database import Columns
from craig_mq.audit.dedup import Insertion
from craig_mq.audit.row import EPOCH, micros


def link_all(head: Link, insertions: Iterable[Insertion]) -> tuple[Link, list[Columns]]:
    """The chain's new head, and one row for each of ``insertions`` as the next links after ``head``.

    A row has the columns of ``schema.COLUMNS``: ids as UUIDs, times in microseconds since the Unix epoch.
    Each value is made once, for the link as for the row: this is the hot loop of a commit. Raises
    ``UnicodeEncodeError`` for text no encoding can hold (a lone surrogate).
    """
    writer, seq, chain = head.writer, head.seq, head.chain
    moment, recorded_at = EPOCH, 0
    rows: list[Columns] = []
    for insertion in insertions:
        entry, canonical_id = insertion.entry, insertion.canonical_id
        row, seq = entry.row, seq + 1
        token = row.token if canonical_id is None else None
        if entry.recorded_at is not moment:  # a group's entries share theirs
            moment, recorded_at = entry.recorded_at, micros(entry.recorded_at)
        occurred_at = micros(row.occurred_at)
        content_sha256 = row.content_sha256
        chain = digest(
            chain,
            (
                writer, seq, entry.id, token, row.envelope_id, row.source_service, row.event_type,
                occurred_at, recorded_at, row.queue, row.reason, row.park_count, content_sha256.hex(),
                canonical_id,
            ),
        )  # fmt: skip
        rows.append(
            (
                entry.id, token, row.envelope_id, row.source_service, row.event_type, occurred_at,
                recorded_at, row.queue, row.reason, row.park_count, content_sha256,
                canonical_id is not None, canonical_id, writer, seq, chain, row.body,
            )
        )  # fmt: skip
    return Link(writer, seq, chain), rows
