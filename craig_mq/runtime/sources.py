"""Where the runtime's wall clock, identifiers and chance come from (architecture, principle 8).

Everything else in the runtime takes its time from Trio's clock, so a simulation that injects these
three is a function of its seed.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import attrs

from craig_mq.core.capture_format import uuid7


def system_uuid7() -> str:
    """Return a fresh UUIDv7 from the system clock and the system's randomness."""
    return uuid7(time.time_ns() // 1_000_000, int.from_bytes(os.urandom(10), "big") >> 6)


@attrs.define(frozen=True, slots=True)
class Sources:
    """Wall clock (seconds since the Unix epoch), fresh UUIDv7s, and jitter uniform in [0, 1)."""

    now: Callable[[], float] = time.time
    uuid7: Callable[[], str] = system_uuid7
    jitter: Callable[[], float] = random.random


SYSTEM_SOURCES = Sources()
