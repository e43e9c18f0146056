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

_RANDOM_BYTES = 10
_DRAWN_AT_ONCE = 512
_VARIANTS = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
_tails: list[str] = []


def system_uuid7() -> str:
    """Return a fresh UUIDv7 from the system clock and the system's randomness. Safe from any thread."""
    try:
        tail = _tails.pop()  # one step for every other thread: no tail is handed out twice
    except IndexError:
        tail, *rest = _draw_tails()
        _tails.extend(rest)
    digits = f"{time.time_ns() // 1_000_000:012x}"
    return f"{digits[:8]}-{digits[8:]}-{tail}"


def _draw_tails() -> list[str]:
    # One system call for many; a forked process must never hand out its parent's.
    drawn = os.urandom(_RANDOM_BYTES * _DRAWN_AT_ONCE).hex()
    tails: list[str] = []
    for at in range(0, len(drawn), 2 * _RANDOM_BYTES):
        digits = drawn[at : at + 2 * _RANDOM_BYTES]
        tails.append(f"7{digits[:3]}-{_VARIANTS[digits[3]]}{digits[4:7]}-{digits[7:19]}")
    return tails


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tails.clear)


@attrs.define(frozen=True, slots=True)
class Sources:
    """Wall clock (seconds since the Unix epoch), fresh UUIDv7s, and jitter uniform in [0, 1).

    ``monotonic`` (seconds) times the passes of Trio's loop; None under a virtual clock, where real time
    says something about the machine only.
    """

    now: Callable[[], float] = time.time
    uuid7: Callable[[], str] = system_uuid7
    jitter: Callable[[], float] = random.random
    monotonic: Callable[[], float] | None = time.monotonic


SYSTEM_SOURCES = Sources()
