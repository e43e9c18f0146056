"""Row ids: UUIDv7, so that the order of ids is the order of recording to the millisecond."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from craig_mq.audit.row import micros

ENTROPY_BYTES = 10
_VERSION_AND_VARIANT = (7 << 76) | (2 << 62)
_RANDOM_BITS = (1 << 76) - 1 - (3 << 62)


def row_ids(recorded_at: datetime, entropy: bytes) -> list[UUID]:
    """UUIDv7s of ``recorded_at`` (after 1970), each with 74 bits of ``ENTROPY_BYTES`` from ``entropy``."""
    fixed = (micros(recorded_at) // 1000 << 80) | _VERSION_AND_VARIANT
    return [
        UUID(int=fixed | (int.from_bytes(entropy[at : at + ENTROPY_BYTES], "big") & _RANDOM_BITS))
        for at in range(0, len(entropy), ENTROPY_BYTES)
    ]


def row_id(recorded_at: datetime, entropy: bytes) -> UUID:
    """The one UUIDv7 of ``recorded_at`` that ``entropy``, ``ENTROPY_BYTES`` long, makes."""
    [only] = row_ids(recorded_at, entropy)
    return only


def id_floor(recorded_at: datetime) -> UUID:
    """The smallest id a row recorded at or after ``recorded_at`` can have: a time bound as a key bound."""
    return UUID(int=max(micros(recorded_at), 0) // 1000 << 80)
