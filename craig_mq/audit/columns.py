"""Plain columns, as either store gives them, into the values and rows the ledger speaks in.

What no program of ours wrote there (SQLite takes any type in any column) raises ``UnreadableRow``.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from craig_mq.audit.database import Columns
from craig_mq.audit.errors import UnreadableRow
from craig_mq.audit.row import StoredRow, moment


def as_uuid(value: object) -> UUID:
    """A UUID column: native in PostgreSQL, text in SQLite."""
    if isinstance(value, UUID):
        return value
    try:
        return UUID(str(value))
    except ValueError as error:
        raise UnreadableRow("a column holds something else where a UUID belongs") from error


def as_moment(value: object) -> datetime:
    """A time column: native in PostgreSQL, microseconds since the Unix epoch in SQLite."""
    if isinstance(value, datetime):
        return value
    try:
        return moment(as_int(value))
    except OverflowError as error:
        raise UnreadableRow("a column holds a time that no calendar has") from error


def as_int(value: object) -> int:
    """An integer column."""
    if not isinstance(value, int):
        raise UnreadableRow(f"a column holds a {type(value).__name__} where an integer belongs")
    return value


def as_bytes(value: object) -> bytes:
    """A binary column."""
    if not isinstance(value, bytes):
        raise UnreadableRow(f"a column holds a {type(value).__name__} where bytes belong")
    return value


def as_text(value: object) -> str | None:
    """A text column that may be NULL."""
    return None if value is None else str(value)


def stored_row(values: Columns) -> StoredRow:
    """The row behind the columns of ``schema.COLUMNS`` followed by ``archived_at`` (NULL when hot)."""
    return StoredRow(
        id=as_uuid(values[0]),
        token=as_text(values[1]),
        envelope_id=str(values[2]),
        source_service=str(values[3]),
        event_type=str(values[4]),
        occurred_at=as_moment(values[5]),
        recorded_at=as_moment(values[6]),
        queue=str(values[7]),
        reason=as_text(values[8]),
        park_count=as_int(values[9]),
        content_sha256=as_bytes(values[10]),
        divergent=bool(values[11]),
        canonical_id=None if values[12] is None else as_uuid(values[12]),
        writer=str(values[13]),
        seq=as_int(values[14]),
        chain=as_bytes(values[15]),
        body=None if values[16] is None else as_bytes(values[16]),
        archived_at=None if values[17] is None else as_moment(values[17]),
    )
