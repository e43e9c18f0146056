"""When a parked message goes back, whatever the clocks do (field failure CLK-01)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.core.replay import (
    MAX_SLEEP_S,
    Hold,
    Release,
    Replay,
    ReplayMemory,
    next_step,
    remaining_s,
    skew_s,
)
from craig_mq.core.timing import instant_seconds

TTL = 600.0
NOW = 1_772_000_000.0
HOUR = 3_600.0


def _remaining(parked_at: float, *, wall: float = NOW, elapsed: float = 0.0, ttl: float = TTL) -> float:
    return remaining_s(parked_at, ttl, wall_s=wall, first_seen_s=50.0, monotonic_s=50.0 + elapsed)


def test_a_message_waits_one_ttl_from_its_parking() -> None:
    """Due is parked_at plus the TTL; after a crash it is recomputed, so only the rest is waited."""
    assert _remaining(NOW) == TTL
    assert _remaining(NOW - 100) == TTL - 100
    assert _remaining(NOW - TTL) == 0.0


@pytest.mark.parametrize(
    ("case", "wall", "parked_at", "waits"),
    [
        ("the clock stepped 3 h ahead after 10 s", NOW + 3 * HOUR + 10, NOW, 0.0),
        ("the clock stepped 3 h back after 10 s", NOW - 3 * HOUR + 10, NOW, TTL - 10),
        ("parked 3 h in the future", NOW + 10, NOW + 3 * HOUR, TTL - 10),
        ("parked 10 years ago", NOW + 10, NOW - 10 * 365 * 24 * HOUR, 0.0),
    ],
)
def test_a_clock_step_holds_nothing_longer_than_one_ttl(
    case: str, wall: float, parked_at: float, waits: float
) -> None:
    """CLK-01: a step ahead returns at once; a step back or a future parked_at waits one TTL from receipt."""
    assert _remaining(parked_at, wall=wall, elapsed=10.0) == pytest.approx(waits), case


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00"])
def test_the_ends_of_the_calendar_do_not_overflow(text: str) -> None:
    """CLK-03: year 9999 plus TTL and year 1 are ordinary numbers: one TTL, or at once."""
    assert _remaining(instant_seconds(text)) in (TTL, 0.0)


@given(
    parked_at=st.floats(-1e11, 1e12),
    wall=st.floats(-1e11, 1e12),
    elapsed=st.floats(0, 1e6),
    ttl=st.floats(1, 86_400),
)
def test_the_wait_is_bounded_by_what_is_left_of_one_ttl(
    *, parked_at: float, wall: float, elapsed: float, ttl: float
) -> None:
    """CLK-01: whatever the clocks say, the wait is between 0 and the TTL less the time since receipt."""
    waits = _remaining(parked_at, wall=wall, elapsed=elapsed, ttl=ttl)
    assert 0.0 <= waits <= max(0.0, ttl - elapsed) + 1e-6


def test_a_near_due_time_is_held_and_a_far_one_released() -> None:
    """Up to the hold limit the delivery is kept; beyond it, it is released for at most 60 s."""
    assert next_step(0.0, 20.0) == Replay()
    assert next_step(0.5, 20.0) == Hold(0.5)
    assert next_step(20.0, 20.0) == Hold(20.0)
    assert next_step(20.1, 20.0) == Release(pytest.approx(20.1))
    assert next_step(7_200.0, 20.0) == Release(MAX_SLEEP_S)


def test_skew_is_noticed_beyond_a_tolerance() -> None:
    """A parked_at more than 5 s ahead of this host is skew, by how much; anything else is none."""
    assert skew_s(NOW + 3 * HOUR, NOW) == 3 * HOUR
    assert skew_s(NOW + 5, NOW) is None
    assert skew_s(NOW - 100, NOW) is None


def test_the_first_receipt_survives_release_and_retake() -> None:
    """A capture seen again keeps its first receipt, until it went back."""
    memory = ReplayMemory()
    assert memory.first_seen("a", 1.0) == 1.0
    assert memory.first_seen("a", 99.0) == 1.0
    memory.forget("a")
    memory.forget("never seen")
    assert memory.first_seen("a", 200.0) == 200.0


def test_the_memory_is_bounded_and_forgets_the_longest_unseen() -> None:
    """At its limit the memory forgets what was not seen for longest."""
    memory = ReplayMemory(limit=2)
    memory.first_seen("a", 1.0)
    memory.first_seen("b", 2.0)
    memory.first_seen("a", 3.0)
    memory.first_seen("c", 4.0)
    assert len(memory) == 2
    assert memory.first_seen("a", 5.0) == 1.0
    assert memory.first_seen("b", 6.0) == 6.0


def test_a_memory_of_nothing_is_refused() -> None:
    """A limit below 1 raises ValueError."""
    with pytest.raises(ValueError, match="at least 1"):
        ReplayMemory(limit=0)
