"""The hash chain that makes tampering evident: one chain per writer, each row a link. Pure.

A link is SHA-256 over the previous link and every column of the row except the body, which is
covered by its digest. A row that was edited, removed or moved breaks the chain at its place; a
removed tail is found by comparing the last link with an anchor kept elsewhere.
"""

from __future__ import annotations

import hashlib

import attrs
import msgspec

from craig_mq.audit.row import StoredRow, micros

_DOMAIN = b"craig_mq.audit/1\x00"
_encode = msgspec.json.Encoder().encode


@attrs.define(frozen=True, slots=True)
class Link:
    """The last row of a writer's chain: the next row has ``seq + 1`` and hashes ``chain``."""

    writer: str
    seq: int
    chain: bytes


def genesis(writer: str) -> Link:
    """The link before a writer's first row."""
    return Link(writer, 0, hashlib.sha256(_DOMAIN + writer.encode()).digest())


def expected_chain(previous: bytes, row: StoredRow) -> bytes:
    """The link a stored row must carry if neither it nor anything before it was changed."""
    return digest(
        previous,
        (
            row.writer,
            row.seq,
            row.id,
            row.token,
            row.envelope_id,
            row.source_service,
            row.event_type,
            micros(row.occurred_at),
            micros(row.recorded_at),
            row.queue,
            row.reason,
            row.park_count,
            row.content_sha256.hex(),
            row.canonical_id if row.divergent else None,
        ),
    )


def digest(previous: bytes, columns: tuple[object, ...]) -> bytes:
    """The link of a row with these ``columns`` after the link ``previous``.

    Raises ``UnicodeEncodeError`` for text no encoding can hold (a lone surrogate).
    """
    return hashlib.sha256(_DOMAIN + previous + _encode(columns)).digest()
