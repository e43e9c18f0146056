"""Dedup by occurrence token in the hot window, as a pure plan (decisions, the audit ledger)."""

from __future__ import annotations

from uuid import UUID

import msgspec

from craig_mq.audit.row import Divergent, Entry, Phantom, Recorded, RowOutcome, Tokenless


class Canonical(msgspec.Struct, frozen=True, gc=False):
    """The committed row that holds a token."""

    id: UUID
    content_sha256: bytes


class Insertion(msgspec.Struct, frozen=True, gc=False):
    """A row to write; with ``canonical_id`` it is written tokenless and flagged divergent."""

    entry: Entry
    canonical_id: UUID | None = None

    @property
    def token(self) -> str | None:
        """The token the row will hold: a divergent row holds none."""
        return None if self.canonical_id else self.entry.row.token

    @property
    def outcome(self) -> RowOutcome:
        """What the row's delivery is told once the insertion is committed."""
        if self.canonical_id is not None:
            return Divergent(self.entry.id, self.canonical_id)
        return Tokenless(self.entry.id) if self.entry.row.token is None else Recorded(self.entry.id)


def judge(entry: Entry, canonical: Canonical | None) -> Insertion | RowOutcome:
    """Insert ``entry``, or absorb it, given the row that holds its token now.

    A canonical row with the entry's own id is the entry itself, committed by an earlier attempt.
    """
    if canonical is None:
        return Insertion(entry)
    if canonical.id == entry.id:
        return Recorded(entry.id)
    if canonical.content_sha256 == entry.row.content_sha256:
        return Phantom(canonical.id)
    return Insertion(entry, canonical.id)
