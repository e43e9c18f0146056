"""Row ids: UUIDv7, so that the order of ids is the order of recording to the millisecond."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from craig_mq.audit.row import micros

ENTROPY_BYTES = 10
_VERSION_7 = 0x7000
_VARIANT = 0x8000


def row_id(recorded_at: datetime, entropy: bytes) -> UUID:
    """The UUIDv7 of ``recorded_at`` (after 1970) with 74 of the 80 random bits in ``entropy``."""
    milliseconds = micros(recorded_at) // 1000
    high, low = int.from_bytes(entropy[:2], "big"), int.from_bytes(entropy[2:ENTROPY_BYTES], "big")
    return UUID(
        int=(milliseconds << 80)
        | ((_VERSION_7 | (high & 0x0FFF)) << 64)
        | ((_VARIANT << 48) | (low & 0x3FFF_FFFF_FFFF_FFFF))
    )


def id_floor(recorded_at: datetime) -> UUID:
    """The smallest id a row recorded at or after ``recorded_at`` can have: a time bound as a key bound."""
    return UUID(int=max(micros(recorded_at), 0) // 1000 << 80)
