"""What the ledger records, and what it answers: frozen rows and a closed union of outcomes."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import TypeAlias
from uuid import UUID

import attrs
import msgspec

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    """Whole microseconds since the Unix epoch of an aware ``moment``; the unit the chain hashes."""
    return (moment - EPOCH) // _MICROSECOND


def moment(microseconds: int) -> datetime:
    """The aware UTC datetime that lies ``microseconds`` after the Unix epoch."""
    return EPOCH + timedelta(microseconds=microseconds)


class AuditRow(msgspec.Struct, frozen=True, gc=False):
    """One occurrence to record.

    ``body`` is the original body byte for byte, and ``content_sha256`` its digest. ``token`` is the
    occurrence token or None (tokenless: always inserted). ``reason`` is the broker's or producer's
    reason of death. ``occurred_at`` is aware; a parked return carries the original one (ADR-059
    §threshold), so a stale backlog never looks like a burst.
    """

    token: str | None
    envelope_id: str
    source_service: str
    event_type: str
    occurred_at: datetime
    queue: str
    body: bytes
    reason: str | None = None
    park_count: int = 0

    def __post_init__(self) -> None:
        if self.occurred_at.utcoffset() is None:
            raise ValueError("occurred_at must carry an offset: a naive time has no place in a ledger")

    def __repr__(self) -> str:
        """Tell all but the body, which may hold what no log should."""
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != "body")
        return f"AuditRow({', '.join(shown)})"

    @property
    def content_sha256(self) -> bytes:
        """The digest of the body, made anew at each call: ask once."""
        return hashlib.sha256(self.body).digest()


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A row on its way into the hot window, with the id that makes a second attempt idempotent.

    ``id`` is a UUIDv7 of ``recorded_at``: when a commit's connection dies, looking the id up says
    whether it landed, and inserting it again can't add a second row.
    """

    id: UUID
    recorded_at: datetime
    row: AuditRow


@attrs.define(frozen=True, slots=True)
class StoredRow:
    """One row as the ledger holds it, in the hot window or in the archive.

    ``divergent`` rows claimed the token of ``canonical_id`` with other content and hold no token.
    ``writer`` and ``seq`` place the row in its hash chain, ``chain`` is its link.
    ``archived_at`` is None in the hot window.
    """

    id: UUID
    token: str | None
    envelope_id: str
    source_service: str
    event_type: str
    occurred_at: datetime
    recorded_at: datetime
    queue: str
    reason: str | None
    park_count: int
    content_sha256: bytes = attrs.field(repr=False)
    divergent: bool
    canonical_id: UUID | None
    writer: str
    seq: int
    chain: bytes = attrs.field(repr=False)
    body: bytes | None = attrs.field(repr=False)
    archived_at: datetime | None = None


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """A canonical row was committed: the token is now taken in the hot window."""

    id: UUID


class Phantom(msgspec.Struct, frozen=True, gc=False):
    """The same token with the same content is already committed as ``canonical_id``: absorbed."""

    canonical_id: UUID


class Divergent(msgspec.Struct, frozen=True, gc=False):
    """The token belongs to ``canonical_id`` with other content: committed tokenless and flagged."""

    id: UUID
    canonical_id: UUID


class Tokenless(msgspec.Struct, frozen=True, gc=False):
    """A delivery without a token was committed; there is no dedup for it (ADR-059 §bounds)."""

    id: UUID


RowOutcome: TypeAlias = Recorded | Phantom | Divergent | Tokenless
