"""Where the runtime's wall clock, identifiers and chance come from (architecture, principle 8).

Everything else in the runtime takes its time from Trio's clock, so a simulation that injects these
three is a function of its seed.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable

import attrs

_UUID7_VERSION = 0x7 << 76
_UUID7_VARIANT = 0b10 << 62
_RANDOM_A_MASK = 0xFFF << 64
_RANDOM_B_MASK = (1 << 62) - 1


def uuid7_of(unix_ms: int, randomness: bytes) -> uuid.UUID:
    """Build the UUIDv7 (RFC 9562 §5.7) of a time in milliseconds from ten random bytes."""
    chance = int.from_bytes(randomness, "big")
    return uuid.UUID(
        int=(unix_ms & (1 << 48) - 1) << 80
        | _UUID7_VERSION
        | (chance & _RANDOM_A_MASK)
        | _UUID7_VARIANT
        | (chance & _RANDOM_B_MASK)
    )


def system_uuid7() -> uuid.UUID:
    """Return a fresh UUIDv7 from the system clock and the system's randomness."""
    return uuid7_of(time.time_ns() // 1_000_000, os.urandom(10))


@attrs.define(frozen=True, slots=True)
class Sources:
    """Wall clock (seconds since the Unix epoch), fresh UUIDv7s, and jitter uniform in [0, 1)."""

    now: Callable[[], float] = time.time
    uuid7: Callable[[], uuid.UUID] = system_uuid7
    jitter: Callable[[], float] = random.random


SYSTEM_SOURCES = Sources()
