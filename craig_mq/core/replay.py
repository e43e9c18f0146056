"""When a parked message goes back (ADR-059 §parking; decisions, 4 and 12; field failure CLK-01).

Due on the wall clock is parked_at plus the TTL. The wait is also clamped to one TTL on the monotonic
clock from this process's first receipt, so a clock step or a parked_at in the future holds nothing
longer. Every time is an argument, in seconds.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeAlias

import attrs

MAX_SLEEP_S = 60.0
SKEW_TOLERANCE_S = 5.0
MAX_REMEMBERED_RECEIPTS = 10_000


@attrs.define(frozen=True, slots=True)
class Replay:
    """Due: republish now."""


@attrs.define(frozen=True, slots=True)
class Hold:
    """Due soon: keep the delivery and look again after ``seconds``."""

    seconds: float


@attrs.define(frozen=True, slots=True)
class Release:
    """Due later: give the delivery back, hold nothing, and look again after ``seconds``."""

    seconds: float


ReplayStep: TypeAlias = Replay | Hold | Release

REPLAY = Replay()


def remaining_s(
    parked_at_s: float, ttl_s: float, *, wall_s: float, first_seen_s: float, monotonic_s: float
) -> float:
    """Return how long a parked message still waits: 0 or more, never above ``ttl_s``.

    ``wall_s`` and ``parked_at_s`` count from the Unix epoch; ``first_seen_s`` and ``monotonic_s`` are
    this process's monotonic clock at the first receipt and now.
    """
    until_due = parked_at_s + ttl_s - wall_s
    until_clamp = first_seen_s + ttl_s - monotonic_s
    return max(0.0, min(until_due, until_clamp, ttl_s))


def next_step(wait_s: float, hold_limit_s: float) -> ReplayStep:
    """Choose what to do with a delivery that still waits ``wait_s`` (decisions, 12).

    The sleep after a release is capped: another replica may have held an earlier head and died.
    """
    if wait_s <= 0:
        return REPLAY
    if wait_s <= hold_limit_s:
        return Hold(wait_s)
    return Release(min(wait_s, MAX_SLEEP_S))


def skew_s(parked_at_s: float, wall_s: float) -> float | None:
    """Return by how much ``parked_at_s`` lies ahead of this host's clock, None within the tolerance."""
    ahead = parked_at_s - wall_s
    return ahead if ahead > SKEW_TOLERANCE_S else None


class ReplayMemory:
    """First receipts by capture id, kept over release and re-take, bounded; the oldest are forgotten.

    A forgotten capture starts a new clamp: it can wait longer than one TTL, but is never lost.
    """

    __slots__ = ("_first_seen", "_limit")

    def __init__(self, limit: int = MAX_REMEMBERED_RECEIPTS) -> None:
        """Remember at most ``limit`` captures (1 or more)."""
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        self._limit = limit
        self._first_seen: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._first_seen)

    def first_seen(self, capture_id: str, monotonic_s: float) -> float:
        """Return when this capture was first received, which is now if it is new."""
        first = self._first_seen.setdefault(capture_id, monotonic_s)
        self._first_seen.move_to_end(capture_id)
        if len(self._first_seen) > self._limit:
            self._first_seen.popitem(last=False)
        return first

    def forget(self, capture_id: str) -> None:
        """Drop a capture that went back; an unknown one is no error."""
        self._first_seen.pop(capture_id, None)
